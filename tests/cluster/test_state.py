"""The state after any events equals the state after a fresh list.

Covers cluster.freshness, cluster.journal, cluster.labels, cluster.listing, cluster.node, cluster.node_table, cluster.nodes,
cluster.usage.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.cluster.objects import GPU, admitted, facts, free, node, pod, state
from webhook.cluster.node_table import Demand
from webhook.cluster.pods import reservation_request
from webhook.cluster.state import ClusterState, Listing
from webhook.cluster.utilisation import UNKNOWN
from webhook.framework.cluster_view import Placement, PriorityClass, Ranked

NAMES = ("gpu-a", "gpu-b", "gpu-c")
UNKNOWN_USE = UNKNOWN


def chosen(*names: str) -> Placement:
    return Placement(tuple(Ranked(name, 8, 0, 1.0) for name in names), "pack")


# --- what counts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "left"),
    [
        pytest.param(pod("p", on="gpu-a", phase="Succeeded"), 8, id="a pod that has succeeded holds nothing"),
        pytest.param(pod("p", on="gpu-a", phase="Failed"), 8, id="a pod that has failed holds nothing"),
        pytest.param(pod("p"), 8, id="a pod that is not bound and has no ranked nodes holds nothing"),
        pytest.param(pod("p", on="gpu-b"), 8, id="a pod on another node holds nothing here"),
        pytest.param(pod("p", on="gpu-a"), 7, id="a bound pod counts before it runs"),
        pytest.param(pod("p", on="gpu-a", phase="Running"), 7, id="a running pod counts"),
        pytest.param(pod("p", 4, on="gpu-a"), 4, id="every GPU that is asked for counts"),
        pytest.param(
            pod("p", on="gpu-a", initContainers=[{"name": "i", "resources": {"limits": {GPU: "5"}}}]),
            3,
            id="an init container that needs more than the rest counts instead",
        ),
        pytest.param(pod("p", on="gpu-a", asks={GPU: "1"}), 7, id="a request equal to the limit counts once"),
    ],
)
def test_a_pod_counts_as_the_scheduler_counts_it(made: dict[str, Any], left: int) -> None:
    assert free(state([node("gpu-a")], [made]), "gpu-a") == left


def test_a_terminating_pod_counts_until_it_is_gone() -> None:
    made = pod("p", on="gpu-a")
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    of = state([node("gpu-a")], [made])
    assert free(of, "gpu-a") == 7
    of.pod_gone(made, 0)
    assert free(of, "gpu-a") == 8


def test_a_pod_that_is_bound_before_its_node_is_known_counts_there() -> None:
    of = state()
    of.pod_seen(pod("p", 2, on="gpu-a"), 0)
    of.node_seen(node("gpu-a"))
    assert free(of, "gpu-a") == 6


def test_a_node_that_comes_back_still_has_its_pods() -> None:
    of = state([node("gpu-a")], [pod("p", 2, on="gpu-a")])
    of.node_gone("gpu-a")
    assert of.nodes.count == 0
    of.node_seen(node("gpu-a"))
    assert free(of, "gpu-a") == 6


def test_a_resource_that_no_node_had_is_counted_from_the_pods_that_hold_it_already() -> None:
    of = state([node("gpu-a", gpus=None)], [pod("p", 3, on="gpu-a")])
    of.reserve_pod(admitted(pod("q", 2)), chosen("gpu-a"), 0)
    of.node_seen(node("gpu-a"))  # the device plugin has started
    assert free(of, "gpu-a") == 3


def test_a_resized_pod_counts_as_it_is_now() -> None:
    of = state([node("gpu-a")], [pod("p", on="gpu-a", asks={"cpu": "4"})])
    of.pod_seen(pod("p", on="gpu-a", asks={"cpu": "10"}), 0)
    assert free(of, "gpu-a", "cpu") == 86_000


def test_quantities_that_nobody_can_read_do_not_stop_the_state() -> None:
    of = state([node("gpu-a", cpu="nonsense")], [pod("p", on="gpu-a", asks={"cpu": "much"})])
    assert free(of, "gpu-a", "pods") == 109
    assert free(of, "gpu-a", "cpu") == 0


def test_absurd_quantities_do_not_overflow() -> None:
    pods = [pod(f"p{i}", on="gpu-a", asks={"memory": "9E"}) for i in range(100)]
    of = state([node("gpu-a", memory="8E")], pods)
    assert free(of, "gpu-a", "memory") < 0


def test_a_row_of_a_deleted_node_is_used_again_and_nothing_of_it_is_left() -> None:
    of = state([node("gpu-a", labels={"nvidia.com/gpu.product": "H100"}, cordoned=True)])
    of.node_gone("gpu-a")
    of.node_seen(node("gpu-b", gpus=None))
    assert of.nodes.columns.rows == 1
    assert facts(of) == facts(state([node("gpu-b", gpus=None)]))


def test_many_nodes_and_pods_leave_no_trace_when_they_are_gone() -> None:
    of = state()
    for i in range(300):
        of.node_seen(node(f"gpu-{i}"))
        of.pod_seen(pod(f"p{i}", on=f"gpu-{i}", owner=f"o{i}"), 0)
    for i in range(300):
        of.pod_gone(pod(f"p{i}"), 0)
        of.node_gone(f"gpu-{i}")
    assert not of.nodes.row_of
    assert not of.usage.peers
    assert not of.usage._kinds
    assert not any(array.any() for array in of.nodes.columns.free.values())


# --- lists ------------------------------------------------------------------------------------------------------------


def test_what_a_list_does_not_name_is_gone() -> None:
    of = state([node("gpu-a"), node("gpu-b")], [pod("p", on="gpu-a"), pod("q", on="gpu-b")])
    of.replace("nodes", [node("gpu-b")], 1)
    of.replace("pods", [pod("p", on="gpu-b")], 1)
    assert facts(of) == facts(state([node("gpu-b")], [pod("p", on="gpu-b")]))


def test_a_list_in_pages_is_the_list() -> None:
    of = state([node("gpu-x")])
    listing = Listing(of, "nodes")
    listing.add([node("gpu-a")], 1)
    listing.add([node("gpu-b")], 1)
    assert of.nodes.count == 3
    listing.done(1)
    assert facts(of) == facts(state([node("gpu-a"), node("gpu-b")]))


@pytest.mark.parametrize(
    ("heard", "now", "fresh"),
    [
        pytest.param({}, 10, True, id="just listed"),
        pytest.param({}, 60, True, id="as old as is allowed"),
        pytest.param({}, 61, False, id="not heard of for too long"),
        pytest.param({"nodes": 50, "pods": 50, "namespaces": 50}, 61, False, id="one watch silent"),
        pytest.param(
            {"nodes": 50, "pods": 50, "namespaces": 50, "priorityclasses": 50}, 61, True, id="all watches alive"
        ),
    ],
)
def test_the_state_is_fresh_while_every_watch_is_alive(heard: dict[Any, float], now: float, fresh: bool) -> None:
    of = state()
    for kind, at in heard.items():
        of.heard(kind, at)
    assert of.view(now).fresh is fresh


def test_the_state_is_not_fresh_until_every_kind_was_listed() -> None:
    of = ClusterState()
    for kind in ("nodes", "pods", "namespaces"):
        of.replace(kind, [], 0)
        assert not of.view(0).fresh
    of.replace("priorityclasses", [], 0)
    assert of.view(0).fresh


def test_priority_classes_and_namespaces_are_kept_by_name() -> None:
    of = state()
    of.priority_classes.seen({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    of.priority_classes.seen({"metadata": {"name": "low"}, "value": -1, "globalDefault": True})
    of.namespaces.seen({"metadata": {"name": "team-a", "labels": {"x": "y"}}})
    of.namespaces.seen({"metadata": {"name": "team-b"}})
    seen = of.view(0)
    assert seen.priority_classes == {
        "high": PriorityClass("high", 1000, "Never", False),
        "low": PriorityClass("low", -1, "PreemptLowerPriority", True),
    }
    assert seen.namespace_labels("team-a") == {"x": "y"}
    assert seen.namespace_labels("team-b") == {}
    of.namespaces.gone("team-b")
    of.priority_classes.gone("low")
    assert seen.namespace_labels("team-b") is None
    assert list(of.priority_classes) == ["high"]


# --- GPU metrics ------------------------------------------------------------------------------------------------------


def use(**known: Any) -> Any:
    return UNKNOWN_USE._replace(known=8, **known)


def test_gpu_metrics_of_a_node_that_is_not_there_yet_wait_for_it() -> None:
    of = state()
    of.gpu_use_seen("gpu-a", use(measured=8, idle=3, utilisation=0.5))
    of.node_seen(node("gpu-a"))
    columns, row = of.nodes.columns, of.nodes.row_of["gpu-a"]
    assert (columns.measured[row], columns.idle[row], columns.utilisation[row]) == (8, 3, 0.5)


def test_gpu_metrics_that_end_are_forgotten() -> None:
    of = state([node("gpu-a")])
    of.gpu_use_seen("gpu-a", use(measured=8, idle=3, utilisation=0.5, avoid=1))
    of.gpu_use_seen("gpu-a", UNKNOWN_USE)
    columns = of.nodes.columns
    assert (columns.measured[0], columns.avoid[0]) == (0, 0)
    assert (columns.idle[0], columns.utilisation[0]) == (0, 0)


def test_small_changes_of_utilisation_change_nothing() -> None:
    of = state([node("gpu-a")])
    of.gpu_use_seen("gpu-a", use(measured=8, idle=3, utilisation=0.50))
    before = of.nodes.changes.position
    of.gpu_use_seen("gpu-a", use(measured=8, idle=3, utilisation=0.51))
    assert of.nodes.changes.position == before


# --- any order --------------------------------------------------------------------------------------------------------

_NODES = st.builds(
    node,
    st.sampled_from(NAMES),
    st.sampled_from([None, 0, 4, 8]),
    labels=st.dictionaries(st.sampled_from(["zone", "nvidia.com/gpu.product"]), st.sampled_from(["x", "y"])),
    taints=st.lists(
        st.fixed_dictionaries({"key": st.sampled_from(["k", "l"]), "effect": st.just("NoSchedule")}), max_size=2
    ),
    conditions=st.dictionaries(st.sampled_from(["Ready", "GpuUnhealthy"]), st.sampled_from(["True", "False"])),
    cordoned=st.booleans(),
)
_PODS = st.builds(
    pod,
    st.sampled_from(["p", "q", "r", "s"]),
    st.integers(0, 3),
    on=st.sampled_from([None, *NAMES]),
    owner=st.sampled_from([None, "o1", "o2"]),
    phase=st.sampled_from(["", "Running", "Succeeded"]),
    ranked=st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
    unschedulable=st.booleans(),
)


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens, the state equals one that was fed from a list of what is there now."""

    def __init__(self) -> None:
        super().__init__()
        self.of = state(ttl=10.0, unseen_ttl=4.0)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.now = 0.0

    @rule(made=_NODES)
    def node_seen(self, made: dict[str, Any]) -> None:
        self.nodes[made["metadata"]["name"]] = made
        self.of.node_seen(made)

    @rule(name=st.sampled_from(NAMES))
    def node_gone(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.of.node_gone(name)

    @rule(made=_PODS)
    def pod_seen(self, made: dict[str, Any]) -> None:
        name = made["metadata"]["name"]
        before = self.pods.get(name)
        if before is not None and before["spec"].get("nodeName"):  # a binding is for ever
            made["spec"]["nodeName"] = before["spec"]["nodeName"]
        self.pods[name] = made
        self.of.pod_seen(made, self.now)

    @rule(name=st.sampled_from(["p", "q", "r", "s"]))
    def pod_gone(self, name: str) -> None:
        self.pods.pop(name, None)
        self.of.pod_gone(pod(name), self.now)

    @rule(made=_PODS, nodes=st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=3))
    def reserve(self, made: dict[str, Any], nodes: list[str]) -> None:
        self.of.reserve_pod(admitted(made), chosen(*nodes), self.now)

    @rule(made=_PODS, more=st.integers(1, 3), before=st.sampled_from(NAMES), after=st.sampled_from(NAMES))
    def asked_again(self, made: dict[str, Any], more: int, before: str, after: str) -> None:
        request = reservation_request(admitted(made))
        earlier = self.of.ledger.earlier(request.key, before, request.demand)
        if earlier is not None:
            with self.of.ledger.without(earlier):
                pass
            larger = Demand(tuple((name, amount + more) for name, amount in request.demand.requests))
            self.of.reserve(request._replace(demand=larger), chosen(after), self.now, earlier)

    @rule(seconds=st.floats(0.0, 20.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.of.expire(self.now)

    @rule()
    def listed_again(self) -> None:
        self.of.replace("pods", list(self.pods.values()), self.now)
        self.of.replace("nodes", list(self.nodes.values()), self.now)

    @invariant()
    def what_is_held_and_what_is_free_add_up(self) -> None:
        columns = self.of.nodes.columns
        held: dict[int, int] = {}
        for row, kind in self.of.ledger.holders():
            held[row] = held.get(row, 0) + kind.demand.amount(GPU)
        for name, row in self.of.nodes.row_of.items():
            if not columns.alive[row] or GPU not in columns.free:
                continue
            bound = sum(
                int(c["resources"]["limits"].get(GPU, 0))
                for p in self.pods.values()
                if p["spec"].get("nodeName") == name and p["status"].get("phase") != "Succeeded"
                for c in p["spec"]["containers"]
            )
            offered = int(self.nodes[name]["status"]["allocatable"].get(GPU, 0))
            assert columns.free[GPU][row] == offered - bound - held.get(row, 0)

    @invariant()
    def the_counts_of_the_ledger_are_what_it_holds(self) -> None:
        counts = self.of.ledger.counts
        assert counts.reserved + counts.seen == len(self.of.ledger.holders())

    def teardown(self) -> None:
        self.of.expire(self.now + 1000.0)
        again = state(self.nodes.values(), self.pods.values(), ttl=10.0, unseen_ttl=4.0)
        again.expire(1000.0)
        assert facts(self.of) == facts(again)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


@given(st.permutations([f"node-{i}" for i in range(40)]), st.data())
@settings(max_examples=30, deadline=None)
def test_the_order_of_nodes_is_by_name_however_they_came(names: list[str], data: st.DataObject) -> None:
    of = state()
    for name in names:
        of.node_seen(node(name))
    for name in data.draw(st.lists(st.sampled_from(names), unique=True)):
        of.node_gone(name)
        of.node_seen(node(name + "x"))
    left = sorted(of.nodes.row_of)
    assert [of.nodes.columns.name[row] for row in of.nodes.by_name()] == left


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"metadata": {"name": "gpu-a"}, "status": {"allocatable": 7}}, id="allocatable is a number"),
        pytest.param({"metadata": {"name": "gpu-a"}, "spec": {"taints": ["x"]}}, id="a taint is a string"),
        pytest.param({"metadata": {"name": "gpu-a"}, "status": {"conditions": [None]}}, id="a condition is null"),
    ],
)
def test_a_node_that_cannot_be_read_changes_nothing(broken: dict[str, Any]) -> None:
    of, nodes = state(), [node("gpu-a"), node("gpu-b")]
    with pytest.raises((AttributeError, TypeError)):
        of.node_seen(broken)
    of.replace("nodes", nodes, 0)
    with pytest.raises((AttributeError, TypeError)):
        of.node_seen(broken)
    assert facts(of) == facts(state(nodes))
