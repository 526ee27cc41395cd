"""What a shape says about nodes is what a new one says, whatever changed since the last look."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.objects import node, pod, state
from webhook.placement import shapes
from webhook.placement.constraints import compiled
from webhook.placement.filters import Filter
from webhook.placement.settings import Health
from webhook.placement.shapes import Shape

HEALTH = Health(labels={"sick": ["true"]}, conditions={"GpuBroken": "True"})
_TERM = {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}
_FIELD = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
SPECS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a selector": {"nodeSelector": {"pool": "a"}},
    "a node by name": {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_FIELD]}}
        }
    },
    "a wish": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": _TERM}],
            }
        },
        "tolerations": [{"operator": "Exists"}],
    },
}
_nodes = st.builds(
    lambda number, labels, taints, conditions, cordoned, named: (
        node(f"n{number}", labels=labels, taints=taints, conditions=conditions, cordoned=cordoned),
        named,
    ),
    st.integers(0, 5),
    st.dictionaries(st.sampled_from(["pool", "sick", "fast"]), st.sampled_from(["a", "true"])),
    st.sampled_from([(), ({"key": "k", "value": "v", "effect": "NoSchedule"},)]),
    st.sampled_from([{}, {"Ready": "False"}, {"GpuBroken": "True"}]),
    st.booleans(),
    st.booleans(),
)
_steps = st.lists(st.lists(st.tuples(st.sampled_from(["seen", "gone", "pod"]), _nodes), max_size=4), max_size=8)


def fresh(spec: dict[str, Any]) -> Shape:
    constraints = compiled(spec)
    assert constraints is not None
    return Shape(Filter(constraints, HEALTH))


@pytest.mark.parametrize("few", [0, 48], ids=["as arrays", "one by one"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@given(steps=_steps)
def test_a_shape_says_what_a_new_one_says(few: int, spec: dict[str, Any], steps: list[Any]) -> None:
    of, kept = state(), fresh(spec)
    kept.refresh(of.nodes)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shapes, "_FEW", few)
        for step in steps:
            for what, (made, named) in step:
                if not named:
                    made["metadata"]["labels"] = {}
                if what == "seen":
                    of.node_seen(made)
                elif what == "gone":
                    of.node_gone(made["metadata"]["name"])
                else:  # the row is there before the node is
                    of.pod_seen(pod("p", on=made["metadata"]["name"]), 0)
            kept.refresh(of.nodes)
            new = fresh(spec)
            new.refresh(of.nodes)
            assert kept.mask.tolist() == new.mask.tolist()
            alive = of.nodes.columns.alive
            if kept.wish is not None and new.wish is not None:
                assert kept.wish[alive].tolist() == new.wish[alive].tolist()
