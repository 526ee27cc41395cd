"""Which nodes can take a pod, and the reason why others cannot."""

import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.placement.placed import KEY, TAINT, UPGRADE, affinity, expression, names, placed
from tests.state.objects import Object, admitted, state
from webhook.kube.asked import AskedPod
from webhook.placement.settings import Health, PlacementSettings

TOLERANT = pod("p", tolerations=[{"key": KEY, "operator": "Exists", "effect": "NoSchedule"}])
CORDON = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
REFUSED = [
    pytest.param(node("n", conditions={"Ready": "False"}), pod("p"), "not ready", id="the kubelet is not ready"),
    pytest.param(node("n", conditions={"Ready": "Unknown"}), pod("p"), "not ready", id="the kubelet is silent"),
    pytest.param(node("n", cordoned=True), pod("p"), "cordoned", id="a cordoned node"),
    pytest.param(node("n", taints=[TAINT]), pod("p"), "taint not tolerated", id="a taint without a toleration"),
    pytest.param(
        node("n", taints=[{**TAINT, "effect": "NoExecute"}]), TOLERANT, "taint not tolerated", id="another effect"
    ),
    pytest.param(
        node("n"), pod("p", nodeSelector={"zone": "a"}), "node selector does not match", id="a label it has not"
    ),
    pytest.param(node("n"), pod("p", affinity=affinity({})), "node affinity does not match", id="an empty term"),
    pytest.param(
        node("n", labels={UPGRADE: "upgrade-failed"}), pod("p"), "GPUs are not healthy", id="a failed driver upgrade"
    ),
    pytest.param(
        node("n", conditions={"GpuUnhealthy": "True"}), pod("p"), "GPUs are not healthy", id="a bad condition"
    ),
    pytest.param(node("n", gpus=0), pod("p"), "no such GPU", id="a node without GPUs"),
    pytest.param(
        node("n", resources={"nvidia.com/gpu": "0"}), pod("p"), "no such GPU", id="a node whose device plugin is gone"
    ),
    pytest.param(node("n", gpus=2), pod("p", 3), "too few free GPUs", id="more GPUs than it has"),
    pytest.param(node("n", cpu="3"), pod("p", limits={"cpu": "4"}), "too little CPU", id="too little CPU"),
    pytest.param(
        node("n", memory="1Gi"), pod("p", limits={"memory": "2Gi"}), "too little memory", id="too little memory"
    ),
    pytest.param(node("n", pods="0"), pod("p"), "too many pods", id="no room for another pod"),
    pytest.param(
        node("n"), pod("p", limits={"ephemeral-storage": "2Ti"}), "too little ephemeral storage", id="too little disk"
    ),
    pytest.param(
        node("n"), pod("p", limits={"rdma/hca": "1"}), "too little of a resource", id="a resource that no node has"
    ),
]


@pytest.mark.parametrize(("there", "made", "reason"), REFUSED)
def test_a_node_that_cannot_take_the_pod_is_not_chosen_and_the_reason_is_given(
    there: Object, made: Object, reason: str
) -> None:
    placement = placed(state([there]), made)
    assert (placement.reason, placement.rejected, placement.total) == ("no node fits", ((reason, 1),), 1)


TAKEN = [
    pytest.param(node("n"), pod("p", 8), id="it requests all that is free"),
    pytest.param(
        node("n", conditions={"MemoryPressure": "True"}),
        pod("p"),
        id="pressure counts by its taint, not by the condition",
    ),
    pytest.param(node("n", taints=[{**TAINT, "effect": "PreferNoSchedule"}]), pod("p"), id="a taint that only advises"),
    pytest.param(node("n", taints=[TAINT]), TOLERANT, id="a tolerated taint"),
    pytest.param(node("n", cordoned=True), pod("p", tolerations=CORDON), id="a tolerated cordon"),
    pytest.param(node("n", labels={UPGRADE: "upgrade-done"}), pod("p"), id="a driver upgrade that is done"),
    pytest.param(node("n", labels={UPGRADE: "upgrade-required"}), pod("p"), id="an upgrade that has not begun"),
    pytest.param(
        node("n", labels={"zone": "a"}),
        pod("p", affinity=affinity(expression("zone", "Exists"), expression("rack", "Exists"))),
        id="the first of two terms matches",
    ),
    pytest.param(
        node("n"),
        pod("p", affinity=affinity({}, expression("metadata.name", "In", "n", part="matchFields"))),
        id="one of the terms matches",
    ),
]


@pytest.mark.parametrize(("there", "made"), TAKEN)
def test_a_node_that_can_take_the_pod_is_chosen(there: Object, made: Object) -> None:
    assert names(placed(state([there]), made)) == ["n"]


def test_the_policy_says_which_nodes_are_healthy() -> None:
    policy = PlacementSettings(health=Health(labels={"sick": ("*",)}, conditions={"Xid": "True", "GpuSound": "False"}))
    nodes = [
        node("a", labels={"sick": "very"}),
        node("b", conditions={"Xid": "True"}),
        node("d", conditions={"GpuSound": "False"}),
        node("c", labels={UPGRADE: "upgrade-failed"}),
        node("e", conditions={"GpuSound": "Unknown", "Xid": "False"}),
    ]
    assert names(placed(state(nodes), pod("p"), settings=policy)) == ["c", "e"]


def test_a_node_with_gpus_by_dra_only_is_not_a_node_without_gpus() -> None:
    of = state([node("a", gpus=0), node("b", gpus=0)])
    slice_ = {"metadata": {"name": "s"}, "spec": {"nodeName": "a", "driver": "gpu.nvidia.com"}}
    of.replace("resourceslices", [slice_], 0)
    assert placed(of, pod("p")).rejected == (("GPUs only through DRA", 1), ("no such GPU", 1))
    of.slices.gone("s")
    assert placed(of, pod("p")).rejected == (("no such GPU", 2),)


def test_a_node_counts_for_the_first_filter_of_the_scheduler_and_the_most_frequent_reason_comes_first() -> None:
    nodes = [node("a", cordoned=True), node("b", gpus=0), node("c", gpus=0), node("d", cordoned=True, gpus=0)]
    placement = placed(state([*nodes, node("e", gpus=0)]), pod("p"))
    assert (placement.rejected, placement.total) == ((("no such GPU", 3), ("cordoned", 2)), 5)


def test_a_taint_that_passes_is_a_node_that_is_not_ready() -> None:
    leaving = {"key": "aws-node-termination-handler/spot-itn", "value": "", "effect": "NoSchedule"}
    placement = placed(state([node("a", taints=[leaving]), node("b", taints=[TAINT])]), pod("p"))
    assert placement.rejected == (("not ready", 1), ("taint not tolerated", 1))


def test_a_reservation_counts_as_used() -> None:
    of = state([node("a", gpus=1)])
    of.reserve(AskedPod(admitted(pod("p")), GPUS), placed(of, pod("p")), 0)
    assert placed(of, pod("q")).rejected == (("too few free GPUs", 1),)
