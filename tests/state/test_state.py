"""The state after any events equals the state after a fresh list.

Covers nodes.table, state.objects, nodes.nodes, nodes.usage.
"""

from typing import Any

import pytest

from tests.controlplane.nodes import node
from tests.state.objects import GPU, facts, free, state, stored
from webhook.framework.cluster_view import PriorityClass
from webhook.nodes.utilisation import UNKNOWN, PodUse
from webhook.state.state import ClusterState

# --- what counts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "left"),
    [
        pytest.param(stored("p", on="gpu-a", phase="Succeeded"), 8, id="a pod that has succeeded holds nothing"),
        pytest.param(stored("p", on="gpu-a", phase="Failed"), 8, id="a pod that has failed holds nothing"),
        pytest.param(stored("p"), 8, id="a pod that is not bound and has no ranked nodes holds nothing"),
        pytest.param(stored("p", on="gpu-b"), 8, id="a pod on another node holds nothing here"),
        pytest.param(stored("p", on="gpu-a"), 7, id="a bound pod counts before it runs"),
        pytest.param(stored("p", on="gpu-a", phase="Running"), 7, id="a running pod counts"),
        pytest.param(stored("p", 4, on="gpu-a"), 4, id="every GPU that is asked for counts"),
        pytest.param(
            stored("p", on="gpu-a", initContainers=[{"name": "i", "resources": {"limits": {GPU: "5"}}}]),
            3,
            id="an init container that needs more than the rest counts instead",
        ),
        pytest.param(stored("p", on="gpu-a", limits={GPU: "1"}), 7, id="a request equal to the limit counts once"),
    ],
)
def test_a_pod_counts_as_the_scheduler_counts_it(made: dict[str, Any], left: int) -> None:
    assert free(state([node("gpu-a")], [made]), "gpu-a") == left


def test_a_terminating_pod_counts_until_it_is_gone() -> None:
    made = stored("p", on="gpu-a")
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    of = state([node("gpu-a")], [made])
    assert free(of, "gpu-a") == 7
    of.pod_gone(made)
    assert free(of, "gpu-a") == 8


PENDING = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = PENDING | {"reason": "Deferred"}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param({"conditions": [PENDING]}, 92_000, id="the kubelet cannot give it"),
        pytest.param({"conditions": [DEFERRED]}, -1_800_000, id="it waits for room, which the scheduler keeps"),
        pytest.param({}, -1_800_000, id="nothing is said"),
        pytest.param({"conditions": None}, -1_800_000, id="conditions that are none"),
    ],
)
def test_what_a_resize_asks_for_counts_unless_the_kubelet_cannot_give_it(status: dict[str, Any], cpu: int) -> None:
    """Otherwise a tenant would fill every node that has one of his pods."""
    resized = stored("p", 2, on="gpu-a", limits={"cpu": "1000", "memory": "1Gi"})
    given = {"name": resized["spec"]["containers"][0]["name"], "allocatedResources": {"cpu": "4", "memory": "1Gi"}}
    helper = {"name": "helper", "restartPolicy": "Always", "resources": {"requests": {"cpu": "900"}}}
    resized["spec"]["initContainers"] = [helper]
    helped = {"name": "helper", "allocatedResources": {"cpu": "4"}}
    resized["status"] = resized.get("status", {}) | {
        "containerStatuses": [given],
        "initContainerStatuses": [helped],
        **status,
    }
    of = state([node("gpu-a", cpu="100")], [resized])
    assert free(of, "gpu-a", "cpu") == cpu
    assert free(of, "gpu-a") == 6, "GPUs cannot be resized"


IN_PROGRESS = {"type": "PodResizeInProgress", "status": "True", "reason": "Error"}


@pytest.mark.parametrize("condition", [PENDING, DEFERRED, IN_PROGRESS], ids=lambda each: each["reason"])
@pytest.mark.parametrize(
    ("given", "has", "cpu"),
    [
        pytest.param("8", "8", 92_000, id="nothing is taken away yet"),
        pytest.param("2", "8", 92_000, id="less is given, and it has more"),
        pytest.param("2", "2", 98_000, id="less is given"),
        pytest.param("2", None, 98_000, id="less is given, and what it has is not known"),
    ],
)
def test_what_a_resize_leaves_counts_once_the_kubelet_has_brought_it_about(
    condition: dict[str, Any], given: str, has: str | None, cpu: int
) -> None:
    """Otherwise we would choose nodes whose room the scheduler keeps."""
    resized = stored("p", 2, on="gpu-a", limits={"cpu": "1"})
    known = {"resources": {"requests": {"cpu": has, "memory": "16Gi"}}} if has else {}
    name = resized["spec"]["containers"][0]["name"]
    of_container = {"name": name, "allocatedResources": {"cpu": given, "memory": "16Gi"}, **known}
    resized["status"] = {"phase": "Running", "conditions": [condition], "containerStatuses": [of_container]}
    of = state([node("gpu-a", cpu="100")], [resized])
    assert (free(of, "gpu-a", "cpu"), free(of, "gpu-a")) == (cpu, 6)


def test_a_pod_that_was_resized_while_it_waits_holds_what_it_asks_for_now() -> None:
    of = state([node("gpu-a", cpu="100")], [waits := stored("p", 2, ranked=["gpu-a"])])
    assert (free(of, "gpu-a", "cpu"), free(of, "gpu-a")) == (96_000, 6)
    for part in waits["spec"]["containers"][0]["resources"].values():
        part["cpu"] = "50"
    of.pod_seen(waits, 0.0)
    assert (free(of, "gpu-a", "cpu"), free(of, "gpu-a")) == (50_000, 6)
    waits["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    of.pod_seen(waits, 0.0)
    assert free(of, "gpu-a", "cpu") == 100_000


def test_a_resize_of_a_whole_pod_that_the_kubelet_cannot_give_does_not_count() -> None:
    resized = stored("p", 2, on="gpu-a", limits={"cpu": "1"})
    resized["spec"]["resources"] = {"requests": {"cpu": "1000"}}
    resized["status"] = {"phase": "Running", "conditions": [PENDING], "allocatedResources": {"cpu": "8"}}
    assert free(state([node("gpu-a", cpu="100")], [resized]), "gpu-a", "cpu") == 92_000


def test_malformed_quantities_do_not_stop_the_state() -> None:
    of = state([node("gpu-a", cpu="nonsense")], [stored("p", on="gpu-a", limits={"cpu": "much"})])
    assert free(of, "gpu-a", "pods") == 109
    assert free(of, "gpu-a", "cpu") == 0


def test_absurd_quantities_do_not_overflow() -> None:
    pods = [stored(f"p{i}", on="gpu-a", limits={"memory": "9E"}) for i in range(100)]
    of = state([node("gpu-a", memory="8E")], pods)
    assert free(of, "gpu-a", "memory") < 0


# --- lists ------------------------------------------------------------------------------------------------------------


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
        of.freshness.heard(kind, at)
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
    return UNKNOWN._replace(known=8, **known)


def test_gpu_metrics_of_a_node_wait_for_it_and_are_there_until_there_are_none() -> None:
    of = state()
    of.nodes.use_seen("gpu-a", use(measured=8, idle=3, utilisation=0.5, avoid=1))
    columns = of.nodes.columns
    for _ in range(2):  # the second time it comes back
        of.node_seen(node("gpu-a"))
        assert (columns.measured[0], columns.idle[0], columns.utilisation[0], columns.avoid[0]) == (8, 3, 0.5, 1)
        assert of.nodes.metered == 1
        of.node_gone("gpu-a")
        assert (columns.measured[0], of.nodes.metered) == (0, 0)
    of.nodes.use_seen("gpu-a", UNKNOWN)
    of.node_seen(node("gpu-a"))
    assert (columns.measured[0], columns.idle[0], columns.utilisation[0], columns.avoid[0]) == (0, 0, 0, 0)


def test_small_changes_of_utilisation_and_whose_the_gpus_are_change_nothing() -> None:
    of = state([node("gpu-a")])
    of.nodes.use_seen("gpu-a", use(measured=8, idle=3, utilisation=0.50))
    before = of.nodes.columns.changes.position
    of.nodes.use_seen("gpu-a", use(measured=8, idle=3, utilisation=0.51, pods=(PodUse("team/one", 8, 3, (0, 0, 0)),)))
    assert of.nodes.columns.changes.position == before


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"metadata": {"name": "gpu-a"}, "status": {"allocatable": 7}}, id="allocatable is a number"),
        pytest.param({"metadata": {"name": "gpu-a"}, "spec": {"taints": ["x"]}}, id="a taint is a string"),
        pytest.param({"metadata": {"name": "gpu-a"}, "status": {"conditions": [None]}}, id="a condition is null"),
    ],
)
def test_a_malformed_node_changes_nothing(broken: dict[str, Any]) -> None:
    of, nodes = state(), [node("gpu-a"), node("gpu-b")]
    with pytest.raises((AttributeError, TypeError)):
        of.node_seen(broken)
    of.replace("nodes", nodes, 0)
    with pytest.raises((AttributeError, TypeError)):
        of.node_seen(broken)
    assert facts(of) == facts(state(nodes))


# --- what tenants write of nodes and namespaces -----------------------------------------------------------------------


def test_pods_on_nodes_that_do_not_exist_cost_no_review_anything() -> None:
    """Each made a row of the node table, and the order of all nodes by name new."""
    of = state([node("a")])
    order = of.nodes.by_name()
    for number in range(100):
        of.pod_seen(stored(f"p{number}", on=f"no-such-{number}"), 0)
    assert list(of.nodes.row_of) == ["a"]
    assert of.nodes.by_name() is order
    assert len(of.known("pods")) == 100
    for number in range(100):
        of.pod_gone(stored(f"p{number}"))
    assert of.known("pods") == []


def test_a_pod_that_is_seen_before_its_new_node_counts_there_once_it_comes() -> None:
    of = state([node("a")])
    made = stored("p", 2, on="new")
    of.pod_seen(made, 0)
    assert of.is_bound(made)
    of.node_seen(node("new"))
    assert free(of, "new") == 6
    of.pod_gone(made)
    assert free(of, "new") == 8


def labelled(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


@pytest.mark.parametrize(
    ("labels", "spec", "held"),
    [
        pytest.param({"gpu-admission.io/profile": "default"}, {}, True, id="opted in"),
        pytest.param(None, {}, True, id="a namespace that is not known yet"),
        pytest.param({}, {}, False, id="not opted in: the annotation is forged"),
        pytest.param(
            {"gpu-admission.io/profile": "default"},
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "missing"}]},
            False,
            id="waits for a claim",
        ),
        pytest.param(
            {"gpu-admission.io/profile": "default"},
            {"schedulingGroup": {"podGroupName": "missing"}},
            False,
            id="waits for its group",
        ),
    ],
)
def test_a_waiting_pod_holds_its_node_only_where_a_node_is_chosen(
    labels: dict[str, str] | None, spec: dict[str, Any], held: bool
) -> None:
    of = state([node("a")])
    if labels is not None:
        of.seen("namespaces", labelled("team-a", labels), 0)
    of.pod_seen(stored("p", 8, ranked=["a"], **spec), 0)
    assert (free(of, "a") == 0) is held


def test_a_forged_decision_for_a_node_that_does_not_exist_holds_nothing() -> None:
    of = state([node("a")])
    of.pod_seen(stored("p", 8, ranked=["no-such"]), 0)
    assert (list(of.nodes.row_of), of.ledger.counts.seen) == (["a"], 0)
