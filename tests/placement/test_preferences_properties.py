"""Preferences in the affinity and in the ranking agree, for any nodes and pods."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import case
from tests.controlplane.nodes import node
from tests.effort import times
from tests.placement.oracle import matches
from tests.placement.placed import affinity
from tests.placement.pools import (
    A100,
    DISK,
    H100,
    L4,
    LARGE,
    MODEL,
    ON_DEMAND,
    SPOT,
    Object,
    expressions,
    label,
    names,
    placed,
    policy,
    prefers,
)
from tests.state.objects import state, stored
from webhook.framework.node_terms import PREFERRED_TERMS
from webhook.injectors.node_affinity import NodeAffinity
from webhook.kube.json_patch import Edit
from webhook.placement.preferences import MODELS, NODES

_LABELS = st.fixed_dictionaries(
    {},
    optional={
        "pool": st.sampled_from(["spot", "on-demand"]),
        "memory": st.sampled_from(["23034", "81559"]),
        "disk": st.sampled_from(["ssd", "none"]),
        MODEL: st.sampled_from([H100, A100, L4]),
    },
)
_REQUIREMENTS = st.sampled_from(
    [
        SPOT,
        ON_DEMAND,
        DISK,
        LARGE,
        label(MODEL, H100),
        label("pool", operator="DoesNotExist"),
        label("disk", operator="Exists"),
    ]
)
_PREFERENCES = st.lists(
    st.builds(prefers, st.integers(1, 100), _REQUIREMENTS)
    | st.builds(prefers, st.integers(1, 100), _REQUIREMENTS, _REQUIREMENTS),
    max_size=6,
)
_OWN = st.lists(
    st.tuples(
        st.sampled_from([1, 5, 21, 40, 100]),
        st.builds(expressions, _REQUIREMENTS)
        | st.builds(lambda name: {"matchFields": [label("metadata.name", name)]}, st.sampled_from(["n0", "n3"])),
    ),
    max_size=2,
)
_ANNOTATIONS = st.fixed_dictionaries(
    {}, optional={NODES: st.sampled_from(["n1", "n2,n5,nope"]), MODELS: st.sampled_from(["h100", "L4,A100", "x"])}
)


@given(
    st.lists(_LABELS, min_size=1, max_size=14), _PREFERENCES, _OWN, _ANNOTATIONS, st.sampled_from(["pack", "spread"])
)
@times(2)
def test_the_affinity_and_the_ranking_agree(
    labels: list[dict[str, str]], preferences: list[Object], own: list[Any], annotations: dict[str, str], strategy: str
) -> None:
    """By the scheduler's sum of the preferred terms, each ranked node is ahead of all later ones."""
    nodes = [node(f"n{i}", labels=each) for i, each in enumerate(labels)]
    made = stored("p", **({"affinity": affinity(preferred=own)} if own else {}))
    made["metadata"]["annotations"] = annotations
    found = placed(made, policy(*preferences), state(nodes), strategy=strategy)
    edit = Edit(made)
    NodeAffinity().inject(edit, case(made, placement=found).context)
    sums = {
        each["metadata"]["name"]: sum(t["weight"] for t in edit.get(PREFERRED_TERMS) if matches(each, t["preference"]))
        for each in nodes
    }
    ranked = names(found)
    order = [*ranked, *sorted(set(sums) - set(ranked), key=lambda name: -sums[name])]
    for one, next_one in zip(ranked, order[1:], strict=False):
        assert sums[one] > sums[next_one], (ranked, sums)
    again = Edit(edit.object)
    known = placed(made, policy(*preferences), state(nodes), strategy=strategy)._replace(nodes=(), weights=())
    NodeAffinity().inject(again, case(made, placement=known).context)
    assert not again, "a second call adds nothing"
