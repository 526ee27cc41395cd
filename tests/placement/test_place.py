"""The chosen nodes can take the pod, in the order of the ranked nodes, and the same input gives the same answer.

Covers placement.placer, placement.filters, placement.ranker, placement.refusals, placement.request, placement.settings.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import GPUS
from tests.cluster.objects import GPU, admitted, node, placer, pod, state
from tests.placement.oracle import feasible, matches
from webhook.cluster.pods import reservation_request
from webhook.cluster.state import ClusterState
from webhook.cluster.utilisation import UNKNOWN
from webhook.framework.cluster_view import Placement
from webhook.placement.placer import PlacementRequest, placement_request
from webhook.placement.settings import Health, PlacementSettings

ROOT = Path(__file__).parents[2]
DEFAULTS = PlacementSettings()


def placed(
    of: ClusterState, made: dict[str, Any], strategy: str = "pack", settings: PlacementSettings = DEFAULTS
) -> Placement:
    return placer(of).place(made, of.view(0), settings, strategy, GPUS)


def names(placement: Placement) -> list[str]:
    return [ranked.node for ranked in placement.nodes]


def affinity(*terms: dict[str, Any], preferred: list[tuple[int, dict[str, Any]]] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if terms:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": list(terms)}
    if preferred:
        listed = [{"weight": weight, "preference": term} for weight, term in preferred]
        found["preferredDuringSchedulingIgnoredDuringExecution"] = listed
    return {"nodeAffinity": found}


def expression(key: str, operator: str, *values: str, part: str = "matchExpressions") -> dict[str, Any]:
    return {part: [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


# --- pods whose node is not ours to choose ----------------------------------------------------------------------------


def owned_by(kind: str) -> dict[str, Any]:
    made = pod("p", owner="o")
    made["metadata"]["ownerReferences"][0]["kind"] = kind
    return made


def with_metadata(**metadata: Any) -> dict[str, Any]:
    made = pod("p")
    made["metadata"] |= metadata
    return made


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(owned_by("DaemonSet"), "pod of a DaemonSet", id="a DaemonSet has one node for each pod"),
        pytest.param(owned_by("Node"), "static pod", id="a static pod by its owner"),
        pytest.param(
            with_metadata(annotations={"kubernetes.io/config.mirror": "x"}), "static pod", id="a mirror of a static pod"
        ),
        pytest.param(pod("p", on="gpu-a"), "nodeName is set", id="the node is already chosen"),
        pytest.param(pod("p", schedulingGates=[{"name": "g"}]), "scheduling gates", id="a gated pod"),
        pytest.param(
            with_metadata(labels={"kueue.x-k8s.io/queue-name": "q"}), "managed by Kueue", id="a pod in a Kueue queue"
        ),
        pytest.param(pod("p", schedulerName="volcano"), "another scheduler", id="a pod of another scheduler"),
        pytest.param(
            pod("p", 0, resourceClaims=[{"name": "gpu"}]), "GPUs only through DRA", id="GPUs are claimed, not requested"
        ),
        pytest.param(pod("p", 0), "no GPU is asked for", id="a pod without GPUs"),
        pytest.param(pod("p", asks={"cpu": "much"}), "a request is not a quantity", id="a request that is no quantity"),
        pytest.param(
            pod("p", tolerations=[{"operator": "Exists"}] * 300),
            "affinity or tolerations are too many to rank by",
            id="more tolerations than anybody needs",
        ),
        pytest.param(
            pod("p", affinity=affinity(*[expression("k", "In", "v")] * 300)),
            "affinity or tolerations are too many to rank by",
            id="more terms than anybody needs",
        ),
    ],
)
def test_no_node_is_chosen_where_it_is_not_ours_to_choose(made: dict[str, Any], reason: str) -> None:
    placement = placed(state([node("gpu-a")]), made)
    assert placement.reason == reason
    assert placement.nodes == ()


def test_a_stale_state_chooses_nothing() -> None:
    of = state([node("gpu-a")], max_age=10.0)
    assert placer(of).place(pod("p"), of.view(11.0), DEFAULTS, "pack", GPUS).reason == "cluster state is stale"


def test_strategy_off_chooses_nothing() -> None:
    assert placed(state([node("gpu-a")]), pod("p"), "off").reason == "the policy leaves it to the scheduler"


def test_the_default_scheduler_by_name_is_the_default_scheduler() -> None:
    assert names(placed(state([node("gpu-a")]), pod("p", schedulerName="default-scheduler"))) == ["gpu-a"]


# --- filters ----------------------------------------------------------------------------------------------------------

_KEY = "nvidia.com/gpu"
_TAINT = {"key": _KEY, "value": "present", "effect": "NoSchedule"}
_UPGRADE = "nvidia.com/gpu-driver-upgrade-state"


@pytest.mark.parametrize(
    ("there", "made", "reason"),
    [
        pytest.param(node("n", conditions={"Ready": "False"}), pod("p"), "not ready", id="the kubelet is not ready"),
        pytest.param(node("n", conditions={"Ready": "Unknown"}), pod("p"), "not ready", id="the kubelet is silent"),
        pytest.param(node("n", cordoned=True), pod("p"), "cordoned", id="a cordoned node"),
        pytest.param(node("n", taints=[_TAINT]), pod("p"), "taint not tolerated", id="a taint without a toleration"),
        pytest.param(
            node("n", taints=[{**_TAINT, "effect": "NoExecute"}]),
            pod("p", tolerations=[{"key": _KEY, "operator": "Exists", "effect": "NoSchedule"}]),
            "taint not tolerated",
            id="a toleration of another effect",
        ),
        pytest.param(
            node("n", taints=[_TAINT]),
            pod("p", tolerations=[{"key": _KEY, "operator": "Gt", "value": "present"}]),
            "taint not tolerated",
            id="a toleration by an operator that we do not know",
        ),
        pytest.param(
            node("n"), pod("p", nodeSelector={"zone": "a"}), "node selector does not match", id="a label it has not"
        ),
        pytest.param(
            node("n"),
            pod("p", affinity=affinity({})),
            "node affinity does not match",
            id="an empty term matches nothing",
        ),
        pytest.param(
            node("n", labels={"zone": "a"}),
            pod("p", affinity=affinity(expression("zone", "In"))),
            "node affinity does not match",
            id="a term that does not parse matches nothing",
        ),
        pytest.param(
            node("n", labels={_UPGRADE: "upgrade-failed"}),
            pod("p"),
            "GPUs are not healthy",
            id="a failed driver upgrade",
        ),
        pytest.param(
            node("n", conditions={"GpuUnhealthy": "True"}), pod("p"), "GPUs are not healthy", id="a bad condition"
        ),
        pytest.param(node("n", gpus=None), pod("p"), "no such GPU", id="a node without GPUs"),
        pytest.param(node("n", gpus=0), pod("p"), "no such GPU", id="a node whose device plugin is gone"),
        pytest.param(node("n", gpus=2), pod("p", 3), "too few free GPUs", id="more GPUs than it has"),
        pytest.param(node("n", cpu="3"), pod("p"), "too little CPU", id="too little CPU"),
        pytest.param(node("n", memory="1Gi"), pod("p"), "too little memory", id="too little memory"),
        pytest.param(node("n", pods="0"), pod("p"), "too many pods", id="no room for another pod"),
        pytest.param(
            node("n"), pod("p", asks={"ephemeral-storage": "2Ti"}), "too little ephemeral storage", id="too little disk"
        ),
        pytest.param(
            node("n"), pod("p", asks={"rdma/hca": "1"}), "too little of a resource", id="a resource that nobody has"
        ),
    ],
)
def test_a_node_that_cannot_take_the_pod_is_not_chosen_and_the_reason_is_given(
    there: dict[str, Any], made: dict[str, Any], reason: str
) -> None:
    placement = placed(state([there]), made)
    assert placement.reason == "no node fits"
    assert placement.rejected == ((reason, 1),)
    assert placement.total == 1


@pytest.mark.parametrize(
    ("there", "made"),
    [
        pytest.param(node("n"), pod("p", 8), id="it takes all that is free"),
        pytest.param(
            node("n", conditions={"MemoryPressure": "True"}),
            pod("p"),
            id="pressure alone is told by a taint, not by us",
        ),
        pytest.param(
            node("n", taints=[{**_TAINT, "effect": "PreferNoSchedule"}]), pod("p"), id="a taint that only advises"
        ),
        pytest.param(
            node("n", taints=[_TAINT]),
            pod("p", tolerations=[{"key": _KEY, "operator": "Exists", "effect": "NoSchedule"}]),
            id="a tolerated taint",
        ),
        pytest.param(node("n", taints=[_TAINT]), pod("p", tolerations=[{"operator": "Exists"}]), id="all is tolerated"),
        pytest.param(
            node("n", cordoned=True),
            pod("p", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            id="a tolerated cordon",
        ),
        pytest.param(node("n", labels={"zone": "a"}), pod("p", nodeSelector={"zone": "a"}), id="a label it has"),
        pytest.param(
            node("n"),
            pod("p", affinity=affinity({}, expression("metadata.name", "In", "n", part="matchFields"))),
            id="one of the terms matches",
        ),
        pytest.param(node("n", labels={_UPGRADE: "upgrade-done"}), pod("p"), id="a driver upgrade that is done"),
        pytest.param(node("n", labels={_UPGRADE: "upgrade-required"}), pod("p"), id="an upgrade that has not begun"),
    ],
)
def test_a_node_that_can_take_the_pod_is_chosen(there: dict[str, Any], made: dict[str, Any]) -> None:
    assert names(placed(state([there]), made)) == ["n"]


def test_the_health_of_nodes_is_what_the_policy_says() -> None:
    policy = PlacementSettings(health=Health(labels={"sick": ("*",)}, conditions={"Xid": "True", "GpuSound": "False"}))
    nodes = [
        node("a", labels={"sick": "very"}),
        node("b", conditions={"Xid": "True"}),
        node("d", conditions={"GpuSound": "False"}),
        node("c", labels={_UPGRADE: "upgrade-failed"}),
        node("e", conditions={"GpuSound": "Unknown", "Xid": "False"}),
    ]
    assert names(placed(state(nodes), pod("p"), settings=policy)) == ["c", "e"]


def test_a_node_with_gpus_by_dra_only_is_not_a_node_without_gpus() -> None:
    of = state([node("a", gpus=None), node("b", gpus=None)])
    slice_ = {"metadata": {"name": "s"}, "spec": {"nodeName": "a", "driver": "gpu.nvidia.com"}}
    of.replace("resourceslices", [slice_], 0)
    assert placed(of, pod("p")).rejected == (("GPUs only through DRA", 1), ("no such GPU", 1))
    of.slices.gone("s")
    assert placed(of, pod("p")).rejected == (("no such GPU", 2),)


def test_the_reasons_are_counted_most_first() -> None:
    nodes = [node("a", cordoned=True), node("b", gpus=None), node("c", gpus=None), node("d", cordoned=True, gpus=None)]
    placement = placed(state(nodes), pod("p"))
    assert placement.rejected == (("no such GPU", 3), ("cordoned", 1))
    assert placement.total == 4


def test_a_reservation_counts_as_used() -> None:
    of = state([node("a", gpus=1)])
    first = placed(of, pod("p"))
    of.reserve_pod(admitted(pod("p")), first, 0)
    assert placed(of, pod("q")).rejected == (("too few free GPUs", 1),)


def test_changes_of_nodes_and_pods_are_seen_at_once() -> None:
    of = state([node("a"), node("b")])
    changes: list[tuple[Callable[[], None], list[str]]] = [
        (lambda: None, ["a", "b"]),
        (lambda: of.node_seen(node("a", cordoned=True)), ["b"]),
        (lambda: of.pod_seen(pod("x", 8, on="b"), 0), []),
        (lambda: of.node_seen(node("a")), ["a"]),
        (lambda: of.node_seen(node("c")), ["a", "c"]),
        (lambda: of.node_gone("a"), ["c"]),
        (lambda: of.pod_gone(pod("x"), 0), ["b", "c"]),
        (lambda: of.node_seen(node("b", taints=[_TAINT])), ["c"]),
    ]
    for change, left in changes:
        change()
        assert names(placed(of, pod("p"), "spread")) == left


def test_taints_that_are_never_the_same_twice_are_told_from_those_that_stay() -> None:
    of = state([node("a"), node("c")])
    tolerant = pod("p", tolerations=[{"key": _KEY, "operator": "Exists"}])
    for i in range(1000):
        of.node_seen(node("c", taints=[{"key": "ToBeDeleted", "value": str(i), "effect": "NoSchedule"}]))
        if i == 200:
            of.node_seen(node("b", taints=[_TAINT]))
        if i % 20 == 0:
            assert names(placed(of, pod("p"))) == ["a"]
            assert names(placed(of, tolerant)) == (["a", "b"] if i >= 200 else ["a"])
    of.node_seen(node("d"))
    assert names(placed(of, pod("p"))) == ["a", "d"]
    other_shape = pod("p", tolerations=[{"key": _KEY, "operator": "Equal", "value": "present"}])
    assert names(placed(of, other_shape)) == ["a", "b", "d"]
    assert of.nodes.renumbered > 0


# --- order ------------------------------------------------------------------------------------------------------------


def test_equal_nodes_are_ranked_by_name_and_ten_of_them_at_most() -> None:
    of = state([node(f"gpu-{i:03}") for i in range(300)])
    assert names(placed(of, pod("p"))) == [f"gpu-{i:03}" for i in range(10)]
    assert names(placed(of, pod("p"), settings=PlacementSettings(nodes=3))) == ["gpu-000", "gpu-001", "gpu-002"]


@pytest.mark.parametrize("strategy", ["spread", "apart"])
def test_the_fewest_peers_come_first(strategy: str) -> None:
    of = state([node("a"), node("b"), node("c")], [pod("x", on="a", owner="o"), pod("y", on="a", owner="o")])
    of.pod_seen(pod("z", on="b", owner="o"), 0)
    placement = placed(of, pod("p", owner="o"), strategy)
    assert [(r.node, r.peers) for r in placement.nodes] == [("c", 0), ("b", 1), ("a", 2)]


def test_spread_does_not_count_the_pods_of_others_as_peers() -> None:
    of = state([node("a"), node("b")], [pod("x", on="b", owner="other")])
    placement = placed(of, pod("p", owner="o"), "spread")
    assert [(r.node, r.peers) for r in placement.nodes] == [("a", 0), ("b", 0)]


@pytest.mark.parametrize("strategy", ["spread", "apart"])
def test_a_burst_of_one_owner_is_spread_evenly(strategy: str) -> None:
    of = state([node(f"gpu-{i}") for i in range(4)])
    counts: dict[str, int] = {}
    for i in range(12):
        made = pod(f"p{i}", owner="o")
        placement = placed(of, admitted(made), strategy)
        of.reserve_pod(admitted(made), placement, 0)
        counts[placement.nodes[0].node] = counts.get(placement.nodes[0].node, 0) + 1
    assert set(counts.values()) == {3}


def test_apart_leaves_empty_nodes_alone_where_others_are_as_far_from_its_peers() -> None:
    of = state([node("a"), node("b"), node("c")], [pod("x", 4, on="b"), pod("y", 5, on="c")])
    made = pod("p", 2, owner="o")
    assert names(placed(of, made, "spread"))[0] == "a"
    assert names(placed(of, made, "apart")) == names(placed(of, made, "pack")) == ["c", "b", "a"]
    of.pod_seen(pod("z", 1, on="c", owner="o"), 0)
    assert names(placed(of, made, "apart"))[-1] == "c", "but not where a replica is"


def test_pack_fills_the_fullest_node_that_fits() -> None:
    of = state([node("a"), node("b"), node("c")], [pod("x", 4, on="b"), pod("y", 6, on="c")])
    assert names(placed(of, pod("p", 2)))[0] == "c"
    assert names(placed(of, pod("p", 4)))[0] == "b"
    assert names(placed(of, pod("p", 8))) == ["a"]


def test_what_the_user_prefers_comes_first_by_weight() -> None:
    nodes = [node("a"), node("b", labels={"fast": "yes"}), node("c", labels={"near": "yes"}), node("d")]
    wish = affinity(preferred=[(10, expression("fast", "Exists")), (20, expression("near", "Exists"))])
    of = state(nodes, [pod("x", 1, on="d")])
    assert names(placed(of, pod("p", affinity=wish))) == ["c", "b", "d", "a"]
    assert names(placed(of, pod("p", affinity=wish), "spread")) == ["c", "b", "a", "d"]


def test_a_wish_that_no_node_grants_changes_nothing() -> None:
    of = state([node("a"), node("b")])
    wish = affinity(preferred=[(10, expression("fast", "Exists")), (5, {})])
    assert names(placed(of, pod("p", affinity=wish))) == names(placed(of, pod("p")))


@pytest.mark.parametrize("strategy", ["spread", "pack"])
def test_nodes_that_gpu_metrics_advise_against_come_last(strategy: str) -> None:
    of = state([node("a"), node("b"), node("c")], [pod("x", 2, on="c", owner="o")])
    of.gpu_use_seen("a", UNKNOWN._replace(measured=8, idle=8, utilisation=0.0, avoid=1, known=8))
    placement = placed(of, pod("p", owner="o"), strategy)
    assert names(placement)[-1] == "a"


@pytest.mark.parametrize("later", [False, True], ids=["before the first choice", "after it"])
def test_metrics_and_shared_gpus_count_from_when_they_are_known(*, later: bool) -> None:
    of = state([node(name) for name in "abc"])
    if later:
        assert names(placed(of, pod("p"), "spread")) == ["a", "b", "c"]
    of.node_seen(node("b", labels={"nvidia.com/gpu.replicas": "4"}))
    assert names(placed(of, pod("p"), "spread")) == ["a", "c", "b"]
    of.gpu_use_seen("a", UNKNOWN._replace(measured=8, idle=1, utilisation=0.9, known=8))
    assert names(placed(of, pod("p"), "spread")) == ["c", "b", "a"]
    assert names(placed(of, pod("p", 2), "spread")) == ["c", "a", "b"], "slots of shared GPUs come after whole ones"


@pytest.mark.parametrize(
    "known", [{"measured": 8, "idle": 1, "utilisation": 0.9, "known": 8}, None], ids=["metrics", "sharing"]
)
def test_metrics_alone_and_shared_gpus_alone_are_looked_at(known: dict[str, Any] | None) -> None:
    of = state([node(name) for name in "ab"])
    if known is None:
        of.node_seen(node("a", labels={"nvidia.com/gpu.replicas": "4"}))
    else:
        of.gpu_use_seen("a", UNKNOWN._replace(**known))
    assert names(placed(of, pod("p"), "spread")) == ["b", "a"]


def test_ranked_nodes_say_what_is_free_and_are_weighed_from_100_downwards() -> None:
    of = state([node("a"), node("b")], [pod("x", 3, on="b")])
    placement = placed(of, pod("p", 2))
    assert {(r.node, r.free) for r in placement.nodes} == {("a", 8), ("b", 5)}
    assert placement.weights[0] == 100
    assert list(placement.weights) == sorted(set(placement.weights), reverse=True)
    assert len(placement.weights) >= len(placement.nodes)


def test_what_was_read_of_one_pod_serves_all_that_are_like_it() -> None:
    def fed() -> ClusterState:
        return state([node(f"gpu-{i}", labels={"zone": "ab"[i % 2]}) for i in range(6)])

    each, once = fed(), fed()
    first = admitted(pod("p-0", 2, owner="o", nodeSelector={"zone": "a"}))
    request, wanted_reservation = placement_request(first, DEFAULTS, "spread", GPUS), reservation_request(first)
    assert isinstance(request, PlacementRequest)
    first["spec"]["nodeSelector"]["zone"] = "b"  # an ask keeps nothing of the pod
    for i in range(12):
        made = admitted(pod(f"p-{i}", 2, owner="o", nodeSelector={"zone": "a"}))
        assert placement_request(made, DEFAULTS, "spread", GPUS) == request
        assert reservation_request(made) == wanted_reservation
        wanted, found = placed(each, made, "spread"), placer(once).answer(request, once.view(0), DEFAULTS, GPUS)
        assert found == wanted
        each.reserve_pod(made, wanted, 0)
        once.reserve(wanted_reservation, found, 0)
    assert each.ledger.counts == once.ledger.counts
    assert each.usage.peers == once.usage.peers


def test_a_pod_that_is_not_ours_to_place_is_answered_without_a_look_at_the_cluster() -> None:
    assert placement_request(pod("p", 0), DEFAULTS, "pack", GPUS) == Placement((), "pack", "no GPU is asked for")
    assert placement_request(pod("p"), DEFAULTS, "off", GPUS) == placed(state([]), pod("p"), "off")


def test_what_is_remembered_of_shapes_is_bounded_for_tenants_write_them() -> None:
    of = state([node("a", labels={"zone": "x"})])
    for i in range(1500):
        assert not placed(of, pod("p", nodeSelector={"zone": str(i)})).nodes
        assert names(placed(of, pod("p", 1 + i % 8, nodeSelector={"zone": "x"}))) == ["a"]
    ranker = placer(of)._ranker(DEFAULTS, GPUS)
    assert len(ranker._scores) <= 512


def test_what_is_remembered_of_policies_is_bounded_and_shared_by_those_that_rank_alike() -> None:
    of = state([node("a")])
    for _ in range(5):
        assert names(placed(of, pod("p"), settings=PlacementSettings(strategies={"x": "pack"}))) == ["a"]
    assert len(placer(of)._rankers) == 1
    for i in range(100):
        other = PlacementSettings(health=Health(labels={"sick": (str(i),)}))
        assert names(placed(of, pod("p"), settings=other)) == ["a"]
    assert len(placer(of)._rankers) <= 6


def test_what_pods_asked_for_lately_reaches_the_strategies() -> None:
    of = state([node("a", labels={"nvidia.com/gpu.product": "H100"})])
    placed(of, pod("p"))
    for i in range(3):
        of.pod_seen(pod(f"p{i}", 2, on="a", nodeSelector={"nvidia.com/gpu.product": "H100"}), 0)
    placed(of, pod("p"))
    view = placer(of)._ranker(DEFAULTS, GPUS)._view
    assert view.gpus == (GPU,)
    assert [(found.demand.amount(GPU), found.models, found.share) for found in view.popular] == [(2, (1,), 1.0)]


# --- properties -------------------------------------------------------------------------------------------------------

_KEYS = ["zone", "size", _UPGRADE]
_VALUES = ["a", "b", "3", "upgrade-failed"]


@st.composite
def _expressions(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    key = draw(st.sampled_from(_KEYS))
    if operator in ("In", "NotIn"):
        return {"key": key, "operator": operator, "values": draw(st.lists(st.sampled_from(_VALUES), min_size=1))}
    if operator in ("Gt", "Lt"):
        return {"key": key, "operator": operator, "values": [str(draw(st.integers(0, 5)))]}
    return {"key": key, "operator": operator}


_FIELDS = st.builds(
    lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n0", "n1", "n7"]),
)
_TERMS = st.fixed_dictionaries(
    {},
    optional={"matchExpressions": st.lists(_expressions(), max_size=2), "matchFields": st.lists(_FIELDS, max_size=2)},
)
_TAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["k", "l"]),
            "value": st.sampled_from(["", "x"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
        }
    ),
    max_size=2,
)
_TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(["k", "l", ""]),
            "operator": st.sampled_from(["Equal", "Exists"]),
            "value": st.sampled_from(["", "x"]),
            "effect": st.sampled_from(["", "NoSchedule", "NoExecute"]),
        },
    ),
    max_size=3,
)


@st.composite
def _nodes(draw: st.DrawFn, name: str) -> dict[str, Any]:
    return node(
        name,
        draw(st.sampled_from([None, 0, 2, 8, 8, 8])),
        cpu=draw(st.sampled_from(["3", "8", "96"])),
        pods=draw(st.sampled_from(["1", "110", "110"])),
        labels=draw(st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_VALUES))),
        taints=draw(_TAINTS),
        conditions=draw(st.dictionaries(st.sampled_from(["GpuUnhealthy"]), st.sampled_from(["True", "False"]))),
        cordoned=draw(st.sampled_from([False, False, False, True])),
    )


@st.composite
def _pods(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_VALUES), max_size=1))
    preferred = draw(st.lists(st.tuples(st.integers(1, 3), _TERMS), max_size=2))
    required = draw(st.lists(_TERMS, min_size=1, max_size=2)) if draw(st.booleans()) else []
    if preferred or required:
        spec["affinity"] = affinity(*required, preferred=preferred)
    return pod(
        "p",
        draw(st.integers(1, 4)),
        owner=draw(st.sampled_from([None, "o1", "o2"])),
        tolerations=draw(_TOLERATIONS),
        **spec,
    )


_POLICY = PlacementSettings(health=Health(labels={_UPGRADE: ("upgrade-failed", "drain-required")}))


@given(st.data(), st.sampled_from(["spread", "pack"]))
@settings(max_examples=60, deadline=None)
def test_the_chosen_nodes_are_those_that_fit_and_the_order_is_kept(data: st.DataObject, strategy: str) -> None:
    of = state()
    nodes: dict[str, dict[str, Any]] = {}
    bound: dict[str, dict[str, Any]] = {}
    for step in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(["node", "node", "gone", "bind", "unbind", "place"]))
        name = f"n{data.draw(st.integers(0, 7))}"
        if what == "node":
            nodes[name] = data.draw(_nodes(name))
            of.node_seen(nodes[name])
        elif what == "gone" and name in nodes:
            del nodes[name]
            of.node_gone(name)
        elif what == "bind":
            made = pod(f"b{step}", data.draw(st.integers(0, 2)), on=name, owner="o1")
            bound[made["metadata"]["name"]] = made
            of.pod_seen(made, 0)
        elif what == "unbind" and bound:
            of.pod_gone(bound.pop(sorted(bound)[0]), 0)
        made = data.draw(_pods())
        placement = placed(of, made, strategy, _POLICY)
        assert set(names(placement)) == feasible(made, nodes.values(), bound.values())
        assert sum(count for _, count in placement.rejected) == (len(nodes) if not placement.nodes else 0)
        fresh = state(nodes.values(), bound.values())
        fresh.history = of.history
        assert placement == _seeing_alike(fresh, of, made, strategy)
        _in_order(placement, made, nodes, bound, strategy)


def _seeing_alike(fresh: ClusterState, of: ClusterState, made: dict[str, Any], strategy: str) -> Placement:
    """Placed in `fresh` with the view that `of` has: prices are as old as their view."""
    placement = placed(fresh, made, strategy, _POLICY)
    if not placement.nodes:
        return placement
    mine, other = (next(iter(placer(cluster)._rankers.values())) for cluster in (fresh, of))
    mine._view = other._view
    mine._scores.clear()
    return placed(fresh, made, strategy, _POLICY)


def _in_order(
    placement: Placement, made: dict[str, Any], nodes: dict[str, Any], bound: dict[str, Any], strategy: str
) -> None:
    wishes = ((made["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "preferredDuringSchedulingIgnoredDuringExecution"
    ) or []
    owner = made["metadata"].get("ownerReferences")
    keys = []
    for ranked in placement.nodes:
        wish = sum(t["weight"] for t in wishes if matches(nodes[ranked.node], t["preference"]))
        peers = [
            b for b in bound.values()
            if owner and b["spec"]["nodeName"] == ranked.node and b["metadata"]["ownerReferences"] == owner
            and GPU in b["spec"]["containers"][0]["resources"]["limits"]
        ]  # fmt: skip
        assert ranked.peers == len(peers)
        keys.append((-wish, len(peers) if strategy == "spread" else 0, -ranked.score, ranked.node))
    assert keys == sorted(keys)


_SCRIPT = """
from tests.cluster.objects import node, pod, state
from tests.placement.test_place import placed
of = state([node(f"gpu-{i % 7}-{i}", labels={"zone": str(i % 3)}) for i in range(40)])
for i in range(60):
    made = pod(f"p{i}", 1 + i % 4, owner=f"o{i % 5}", nodeSelector={"zone": str(i % 3)})
    placement = placed(of, made, "spread" if i % 2 else "pack")
    of.reserve_pod(made, placement, 0)
    print(placement)
"""


def test_the_answer_does_not_depend_on_the_hash_seed() -> None:
    outputs = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT], env=env, cwd=ROOT, capture_output=True, text=True, check=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


@pytest.mark.parametrize(
    "replicas", [5, 60, 700], ids=["a few", "more than fit elsewhere", "more than it pays to skip"]
)
def test_spread_passes_over_the_nodes_of_any_number_of_peers(replicas: int) -> None:
    of = state([node(f"gpu-{i:04}") for i in range(replicas + 3)])
    for i in range(replicas):
        of.pod_seen(pod(f"p{i}", on=f"gpu-{i:04}", owner="o"), 0)
    free_of_peers = [f"gpu-{i:04}" for i in range(replicas, replicas + 3)]
    placement = placed(of, pod("p", owner="o"), "spread")
    assert names(placement)[:3] == free_of_peers
    assert [ranked.peers for ranked in placement.nodes[:5]] == [0, 0, 0, 1, 1]
    assert names(placement)[3:5] == ["gpu-0000", "gpu-0001"]
