"""Preferences rank the nodes that fit, and go into the pod's affinity."""

import pytest

from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.placement.placed import affinity
from tests.placement.pools import (
    A100,
    A100_SHARED,
    A_SPOT,
    DISK,
    H100,
    L4,
    LARGE,
    MODEL,
    ON_DEMAND,
    PLAIN,
    POOLS,
    SPOT,
    TRAINING_ON_SPOT,
    Object,
    expressions,
    label,
    names,
    placed,
    policy,
    prefers,
    wishing,
)
from tests.state.objects import state, stored
from webhook.framework.cluster_view import Expression, Placement, Preferred
from webhook.placement.settings import PlacementSettings

# --- what must not change ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "by"),
    [
        pytest.param(pod("p"), PlacementSettings(), id="neither the policy nor the pod has preferences"),
        pytest.param(pod("p"), policy(prefers(50, SPOT, classes=("inference",))), id="a preference for other classes"),
        pytest.param(pod("p"), policy(prefers(50, label("none", "x"))), id="a label that no node has"),
        pytest.param(pod("p"), policy(prefers(50, DISK)), id="a label that only nodes without GPUs have"),
        pytest.param(
            pod("p"), policy(prefers(50, SPOT, label("none", "x"))), id="two labels, one of which no node has"
        ),
        pytest.param(
            pod("p"), policy(prefers(50, label("none", operator="DoesNotExist"))), id="the absence of what no node has"
        ),
        pytest.param(wishing(preferred_nodes="", gpu_model=" , "), PlacementSettings(), id="empty annotations"),
    ],
)
def test_nothing_changes(made: Object, by: PlacementSettings) -> None:
    found = placed(made, by)
    assert names(found) == PLAIN
    assert (found.preferred, found.warning) == ((), None)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeSelector": {"pool": "on-demand"}}, id="by its selector"),
        pytest.param({"affinity": affinity(expressions(ON_DEMAND))}, id="by its required affinity"),
        pytest.param({"affinity": affinity(preferred=[(1, expressions(ON_DEMAND))])}, id="by its preferred affinity"),
    ],
)
def test_the_policy_does_not_contradict_the_author_about_a_label(spec: Object) -> None:
    found = placed(stored("p", **spec))
    assert names(found)[:2] == ["a2", "s1"]
    assert found.preferred == ()


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(pod("p", schedulingGates=[{"name": "g"}]), "scheduling gates", id="a gated pod"),
        pytest.param(pod("p", schedulerName="volcano"), "another scheduler", id="a pod of another scheduler"),
        pytest.param(stored("p", on="a1"), "nodeName is set", id="a pod that has its node"),
    ],
)
def test_pods_that_others_place_get_no_preferences(made: Object, reason: str) -> None:
    assert placed(made) == Placement((), "pack", reason)


# --- what must change -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "by", "first"),
    [
        pytest.param(pod("p"), TRAINING_ON_SPOT, ["a1", "h1"], id="the class's capacity type"),
        pytest.param(pod("p"), policy(prefers(50, SPOT)), ["a1", "h1"], id="for all classes"),
        pytest.param(
            pod("p"),
            policy(prefers(100, label(MODEL, H100)), prefers(50, label(MODEL, L4)), prefers(10, label(MODEL, A100))),
            ["h1", "l1", "a1", "a2"],
            id="models by weight",
        ),
        pytest.param(pod("p"), policy(prefers(1, LARGE)), ["a1", "a2", "h1", "s1", "l1"], id="a floor of GPU memory"),
        pytest.param(pod("p"), policy(prefers(1, SPOT, LARGE)), ["a1", "h1"], id="all of several labels"),
        pytest.param(
            pod("p"), policy(prefers(40, SPOT), prefers(30, LARGE), prefers(30, ON_DEMAND)), ["a1", "h1"], id="the sum"
        ),
        pytest.param(
            pod("p"), policy(prefers(9, label("pool", operator="DoesNotExist"))), ["l1"], id="a label that is absent"
        ),
        pytest.param(
            wishing(preferred_nodes="s1,l1"),
            TRAINING_ON_SPOT,
            ["l1", "s1", "a1", "a2", "h1"],
            id="nodes that the author names, and the policy is silent",
        ),
        pytest.param(wishing(gpu_model="h100"), PlacementSettings(), ["h1"], id="a model by a part of its name"),
        pytest.param(
            wishing(gpu_model=A100), PlacementSettings(), ["a1", "a2"], id="a model by its whole name: no other"
        ),
        pytest.param(wishing(gpu_model="l4, H100"), PlacementSettings(), ["h1", "l1"], id="two models"),
        pytest.param(
            wishing(gpu_model="a100-sxm4"), TRAINING_ON_SPOT, ["a1", "a2", "s1", "h1"], id="a model, then the pool"
        ),
        pytest.param(
            wishing(gpu_model="h100", preferred_nodes="a2,s1,gone"),
            TRAINING_ON_SPOT,
            ["a2", "s1", "h1"],
            id="nodes, then a model",
        ),
        pytest.param(
            pod("p", affinity=affinity(preferred=[(1, expressions(label("memory", "23034")))])),
            TRAINING_ON_SPOT,
            ["l1", "a1", "h1"],
            id="the author's own preference first, however light",
        ),
    ],
)
@pytest.mark.parametrize("strategy", ["pack", "spread"])
def test_these_nodes_come_first(made: Object, by: PlacementSettings, first: list[str], strategy: str) -> None:
    found = names(placed(made, by, strategy=strategy))
    assert found[: len(first)] == first
    assert sorted(found) == sorted(PLAIN), "nothing is forbidden"


@pytest.mark.parametrize(
    ("weights", "want"),
    [
        pytest.param([60], [6], id="a tenth"),
        pytest.param([1], [1], id="at least one"),
        pytest.param([100, 100], [10, 10], id="as much as there is room"),
        pytest.param([100, 50, 25, 100], [7, 3, 1, 7], id="less where they are many"),
    ],
)
def test_in_the_affinity_preferences_weigh_less_than_any_difference_between_ranked_nodes(
    weights: list[int], want: list[int]
) -> None:
    keys = ["pool", "memory", MODEL, "kubernetes.io/hostname"]
    found = placed(pod("p"), policy(*[prefers(w, label(k, "x")) for w, k in zip(weights, keys, strict=False)]))
    assert [term.weight for term in found.preferred] == want


@pytest.mark.parametrize(
    ("preferred", "added"),
    [
        pytest.param([(50, expressions(LARGE))], 1, id="far apart"),
        pytest.param([(14, expressions(LARGE)), (7, expressions(DISK))], 1, id="just far enough apart"),
        pytest.param([(6, expressions(LARGE))], 0, id="just too near"),
        pytest.param([(50, expressions(LARGE)), (49, expressions(DISK))], 0, id="their difference counts"),
    ],
)
def test_beside_preferences_of_the_author_only_weights_that_cannot_change_their_order_are_added(
    preferred: list[tuple[int, Object]], added: int
) -> None:
    found = placed(pod("p", affinity=affinity(preferred=preferred)))
    assert len(found.preferred) == added
    assert names(found)[:2] == ["a1", "h1"], "ranked by in any case"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        pytest.param({"strategy": "off"}, "the policy leaves it to the scheduler", id="strategy off"),
        pytest.param({"now": 1e9}, "cluster state is stale", id="a stale state"),
    ],
)
def test_preferences_are_added_without_a_chosen_node(how: Object, reason: str) -> None:
    found = placed(pod("p"), **how)
    assert (found.nodes, found.reason, found.preferred) == ((), reason, (A_SPOT,))
    by_name = placed(wishing(preferred_nodes="l1,gone"), **how).preferred
    assert by_name == (Preferred(20, (Expression("metadata.name", "In", ("l1",), field=True),)),)


@pytest.mark.parametrize(
    ("made", "values"),
    [
        pytest.param(wishing(gpu_model=A100), [(A100,)], id="a whole name, which is part of another: that one alone"),
        pytest.param(wishing(gpu_model="a100"), [(A100, A100_SHARED)], id="a part of two names"),
        pytest.param(wishing(gpu_model="h100,l4,H100"), [(H100, L4)], id="several names in one term"),
        pytest.param(wishing(gpu_model="h100", preferred_nodes="l1"), [], id="beside nodes only ranked by"),
    ],
)
def test_a_model_by_annotation_is_a_term_of_its_own(made: Object, values: list[tuple[str, ...]]) -> None:
    added = placed(made, PlacementSettings()).preferred
    assert [term.expressions for term in added] == [(Expression(MODEL, "In", found),) for found in values]


def test_a_model_by_annotation_does_not_count_beside_one_by_affinity() -> None:
    made = wishing(gpu_model="h100")
    made["spec"]["affinity"] = affinity(preferred=[(50, expressions(label(MODEL, L4)))])
    found = placed(made, PlacementSettings())
    assert names(found)[:2] == ["l1", "a1"]
    assert found.preferred == ()


def test_preferences_are_added_if_no_node_fits_now() -> None:
    assert placed(pod("p", 9)).preferred == (A_SPOT,)


@pytest.mark.parametrize(
    ("annotations", "warning"),
    [
        pytest.param(
            {"preferred_nodes": "a1,nope"},
            'gpu-admission.io/preferred-nodes: there is no node "nope"',
            id="unknown node",
        ),
        pytest.param(
            {"gpu_model": 'x"\n'}, 'gpu-admission.io/gpu-model: no GPU node has a model like "x\\""', id="unknown model"
        ),
        pytest.param(
            {"preferred_nodes": ",".join(f"n{i}" for i in range(11))},
            "gpu-admission.io/preferred-nodes has 11 names: the first 10 count",
            id="many names",
        ),
        pytest.param(
            {"gpu_model": "x" * 5000},
            "gpu-admission.io/gpu-model is longer than 4096 characters: it is not looked at",
            id="a long text",
        ),
    ],
)
def test_a_preference_that_no_node_can_meet_gives_a_warning(annotations: dict[str, str], warning: str) -> None:
    found = placed(wishing(**annotations), PlacementSettings())
    assert found.warning == warning
    assert sorted(names(found)) == sorted(PLAIN)


def test_pods_with_different_preferences_are_ranked_apart() -> None:
    of = state(POOLS)
    for _ in range(2):
        assert names(placed(wishing(gpu_model="l4"), of=of))[0] == "l1"
        assert names(placed(wishing(gpu_model="h100"), of=of))[0] == "h1"
        assert names(placed(pod("p"), of=of))[0] == "a1"
        assert names(placed(pod("p"), of=of, workload="inference"))[0] == "a2"


def test_large_weights_of_a_tenant_rank_like_small_ones() -> None:
    heavy = [(100, expressions(LARGE))] * 40 + [(100, expressions(ON_DEMAND))]
    made = wishing(gpu_model="h100", preferred_nodes="l1")
    made["spec"]["affinity"] = affinity(preferred=heavy)
    assert names(placed(made)) == ["a2", "s1", "h1", "a1", "l1"]


def test_preferences_are_weighed_by_the_present_nodes() -> None:
    of = state(POOLS)
    for i in range(100):
        of.node_seen(node(f"x{i:02}", labels={"pool": "spot", "size": str(i)}))
        found = names(placed(pod("p", affinity=affinity(preferred=[(1, expressions(label("size", str(i))))])), of=of))
        assert found[:2] == [f"x{i:02}", "a1"]
        assert names(placed(pod("p"), of=of))[:3] == ["a1", "h1", "x00"]
