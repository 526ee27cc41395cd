"""Why no node could ever take a pod, with numbers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPUS, container
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.devices.dra import device_class, gpus_of
from tests.placement.placed import affinity, expression
from tests.state.objects import Object, placer, state, stored
from webhook.framework.cluster_view import Unschedulable
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import GpuName, Gpus
from webhook.kube.less import less
from webhook.placement.settings import PlacementSettings
from webhook.state.state import ClusterState
from webhook.text import amount_number

TEAM = {"key": "team", "value": "x", "effect": "NoSchedule"}
SHARED = {"nvidia.com/gpu.replicas": "4"}
A100 = {"gpu.type": "A100", "pool": "big", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
AWAY = {"nvidia.com/gpu": "0"}
"""Its device plugin is."""
NODES = [
    *(node(f"gpu-a{number}", labels=A100) for number in (1, 2, 3)),
    node("small", 4, "NVIDIA-L4", labels={"pool": "small"}, resources={"hugepages-1Gi": "0"}),
    node("cpu", 0, cpu="500", labels={"nvme": "true"}),
]


def unschedulable(of: ClusterState, made: Object) -> list[Unschedulable]:
    return list(placer(of).unschedulable(AskedPod(made, GPUS), of.view(0), PlacementSettings()))


FITS = [
    pytest.param([node("a")], pod("p", 8), id="a pod that some node could take"),
    pytest.param([node("full")], pod("p", 8), id="a node that is full"),
    pytest.param([node("a", cordoned=True)], pod("p"), id="a node that is cordoned for now"),
    pytest.param([node("a", conditions={"Ready": "False"})], pod("p"), id="a node that is down for now"),
    pytest.param(
        [node("a", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"})],
        pod("p"),
        id="a node that is repaired",
    ),
    pytest.param(
        [node("a", taints=[{"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}])],
        pod("p"),
        id="a taint that passes once an agent is ready",
    ),
    pytest.param(
        [node("a", taints=[{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}])],
        pod("p"),
        id="a taint that passes",
    ),
    pytest.param(
        [node("a", resources={"hugepages-2Mi": "4Gi"})],
        pod("p", limits={"hugepages-2Mi": "2Gi"}),
        id="huge pages, which the kubelet offers",
    ),
    pytest.param([node("a")], pod("p", 9, schedulerName="volcano"), id="a pod of another scheduler"),
    pytest.param([node("a")], pod("p", 0, limits={"cpu": "900"}), id="a pod without GPUs"),
]


@pytest.mark.parametrize(("nodes", "made"), FITS)
def test_a_pod_is_schedulable(nodes: list[Object], made: Object) -> None:
    assert unschedulable(state(nodes, [stored("x", 8, on="full")]), made) == []


CASES = [
    pytest.param(
        pod("p", 16),
        "16 nvidia.com/gpu",
        "at most 8, which is what the largest nodes have: gpu-a1, gpu-a2, gpu-a3",
        "Ask for 8 or fewer, or spread the work over 2 pods of 8",
        id="more GPUs than the largest node",
    ),
    pytest.param(
        pod("p", 8, limits={"cpu": "400"}),
        "a pod that asks 400 CPUs with 8 GPUs",
        "what some node has; the largest node with 8 has 128: gpu-a1, gpu-a2, gpu-a3",
        "Ask for at most 128 CPUs",
        id="more CPU than a node with as many GPUs",
    ),
    pytest.param(
        pod("p", 1, limits={"memory": "4Ti"}),
        "a pod that asks 4Ti memory with 1 GPU",
        "what some node has; the largest node with 1 has 1Ti: gpu-a1, gpu-a2, gpu-a3, …",
        "Ask for at most 1Ti memory",
        id="more memory than any node",
    ),
    pytest.param(
        pod("p", 8, limits={"cpu": "120"}, overhead={"cpu": "8500m"}),
        "a pod that asks 128.5 CPUs with 8 GPUs",
        "what some node has; the largest node with 8 has 128: gpu-a1, gpu-a2, gpu-a3",
        "Ask for at most 119.5 CPUs: the overhead of its RuntimeClass is added to that",
        id="more CPU by the overhead",
    ),
    pytest.param(
        pod("p", 8, overhead={"cpu": "130"}),
        "a pod that asks 130 CPUs with 8 GPUs",
        "what some node has; the largest node with 8 has 128: gpu-a1, gpu-a2, gpu-a3",
        "Use another RuntimeClass: the overhead of this one is too much",
        id="more CPU in the overhead alone",
    ),
    pytest.param(
        pod(
            "p", containers=[container(gpu=8, limits={"cpu": "100"}), container("logs", gpu=None, limits={"cpu": "30"})]
        ),
        "a pod that asks 130 CPUs with 8 GPUs",
        "what some node has; the largest node with 8 has 128: gpu-a1, gpu-a2, gpu-a3",
        'Ask for at most 98 CPUs in container "main"',
        id="more CPU in two containers",
    ),
    pytest.param(
        pod(
            "p",
            containers=[container(gpu=8, limits={"cpu": "150"}), container("logs", gpu=None, limits={"cpu": "150"})],
            overhead={"cpu": "8"},
        ),
        "a pod that asks 308 CPUs with 8 GPUs",
        "what some node has; the largest node with 8 has 128: gpu-a1, gpu-a2, gpu-a3",
        "Ask for at most 60 CPUs in each container: the overhead of its RuntimeClass is added to that",
        id="more CPU in each of two containers",
    ),
    pytest.param(
        pod("p", 8, resources={"requests": {"cpu": "150"}}, overhead={"cpu": "8"}),
        "a pod that asks 158 CPUs with 8 GPUs",
        "what some node has; the largest node with 8 has 128: gpu-a1, gpu-a2, gpu-a3",
        "Ask for at most 120 CPUs in spec.resources: the overhead of its RuntimeClass is added to that",
        id="more CPU for the whole pod",
    ),
    pytest.param(
        pod("p", 16, nodeSelector={"pool": "small"}),
        "16 nvidia.com/gpu",
        "at most 4, which is what the largest node that it may go to has: small",
        "Ask for 4 or fewer, or spread the work over 4 pods of 4",
        id="more GPUs than the largest node that it selects",
    ),
    pytest.param(
        pod("p", nodeSelector={"gpu-type": "a100"}),
        "gpu-type=a100",
        "a label that some node has: no node has gpu-type=a100; nearest: gpu.type=A100 (3 nodes)",
        "Write gpu.type: A100 if that is meant",
        id="a label in another spelling",
    ),
    pytest.param(
        pod("p", nodeSelector={"pool": "bigg"}),
        "pool=bigg",
        "a label that some node has: no node has pool=bigg; nearest: pool=big (3 nodes)",
        "Write pool: big if that is meant",
        id="a value that is misspelt",
    ),
    pytest.param(
        pod("p", nodeSelector={"accelerator": "a100"}),
        "accelerator=a100",
        "a label that some node has: no node has accelerator=a100; "
        "nearest: nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB (3 nodes)",
        "Write nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB if that is meant",
        id="a model by a label of somebody's own",
    ),
    pytest.param(
        pod("p", nodeSelector={"disk": "ssd"}),
        "disk=ssd",
        "a label that some node has: no node has disk=ssd",
        "Remove it, or ask those who run this cluster to label the nodes",
        id="a label like no other",
    ),
    pytest.param(
        pod("p", 8, nodeSelector={"pool": "small"}),
        "pool=small",
        "a label of nodes with 8 GPUs; 1 node with pool=small has at most 4",
        "Choose other nodes, or ask for fewer GPUs",
        id="a label of nodes that are too small",
    ),
    pytest.param(
        pod("p", nodeSelector={"pool": "small", "gpu.type": "A100"}),
        "gpu.type=A100, pool=small",
        "what some node with 1 GPU has together; none of 4 nodes has",
        "Remove what these nodes do not have",
        id="labels that no one node has together",
    ),
    pytest.param(
        pod("p", affinity=affinity(expression("gpu.type", "In", "H100", "a-100"))),
        "gpu.type in (H100, a-100)",
        "a label that some node has: no node has gpu.type in (H100, a-100); nearest: gpu.type=A100 (3 nodes)",
        "Write gpu.type: A100 if that is meant",
        id="required affinity",
    ),
    pytest.param(
        pod("p", affinity=affinity(expression("x", "Exists"), expression("y", "Exists"))),
        "2 required terms of node affinity",
        "what some node with 1 GPU has together; none of 4 nodes has",
        "Remove what these nodes do not have",
        id="alternatives of which none can match",
    ),
    pytest.param(
        pod("p", affinity=affinity(expression("gpu.memory", "Gt", "80Gi"))),
        "no such term in node affinity",
        "one that can match: an empty term matches nothing, and Gt and Lt compare with one whole number",
        "Write the terms anew",
        id="an affinity that matches nothing",
    ),
    pytest.param(
        pod("p", limits={"hugepages-1Gi": "2Gi"}),
        "2Gi hugepages-1Gi",
        "a resource that some node has: hugepages-1Gi is on no node",
        "Remove it, or ask those who run this cluster",
        id="huge pages that no node has",
    ),
    pytest.param(
        pod("p", limits={"rdma/hca": "1"}),
        "1 rdma/hca",
        "a resource that some node has: rdma/hca is on no node",
        "Remove it, or ask those who run this cluster",
        id="a resource that is on no node",
    ),
    pytest.param(
        pod("p", 0, limits={"amd.com/gpu": "1"}),
        "1 amd.com/gpu",
        "a resource that some node has: amd.com/gpu is on no node; nodes have nvidia.com/gpu",
        "Ask for what nodes have, or ask those who run this cluster",
        id="a GPU that is on no node",
    ),
    pytest.param(
        pod("p", 0, limits={"nvidia.com/mig-1g.5gb": "1"}),
        "1 nvidia.com/mig-1g.5gb",
        "a resource that some node has: nvidia.com/mig-1g.5gb is on no node; nodes have nvidia.com/gpu",
        "Ask for nvidia.com/gpu, which is the nearest, or ask those who run this cluster",
        id="a profile of MIG that is on no node",
    ),
]


@pytest.mark.parametrize(("made", "seen", "wanted", "fix"), CASES)
def test_the_reason_says_what_is_short_and_where(made: Object, seen: str, wanted: str, fix: str) -> None:
    (found,) = unschedulable(state(NODES), made)
    assert (found.seen, found.wanted, found.fix) == (seen, wanted, fix)
    assert found.lasting is ("the largest node" in wanted), "an amount that no node has"


@pytest.mark.parametrize("label", ["nvidia.com/gpu.product", "nvidia.com/gpu.present"])
def test_gpus_that_only_labels_tell_of_are_for_the_device_plugin_to_list(label: str) -> None:
    """Most who see no GPUs have them: https://github.com/NVIDIA/k8s-device-plugin/issues/33."""
    on_no_node = "a resource that some node has: {} is on no node; {}"
    nodes = [node("silent", 0, labels={label: "true"}), node("other", 0, labels={"nvidia.com/mig.capable": "false"})]
    nodes.append(node("without", 0, labels={label: "false"}))
    for known in (nodes, [*nodes, node("amd", 0, resources={"habana.ai/gaudi": "8"})]):
        (found,) = unschedulable(state(known), pod("p"))
        assert found.wanted == on_no_node.format("nvidia.com/gpu", "silent has GPUs by its labels, but lists none")
        assert found.fix == "Ask those who run this cluster to look at the device plugin there"
    (found,) = unschedulable(state(nodes), pod("p", 0, limits={"amd.com/gpu": "1"}))
    assert found.wanted == on_no_node.format("amd.com/gpu", "no node has any")
    nodes[1]["metadata"]["labels"][label] = "true"
    of = state(nodes)
    of.replace("resourceslices", [gpus_of("other", 4)], 0)
    assert "silent has" in unschedulable(of, pod("p"))[0].wanted, "the other has them by DRA"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/other"])
def test_a_resource_that_a_device_class_serves_is_on_the_nodes_with_its_devices(resource: str) -> None:
    of = state([node("dra", 0), node("cpu", 0)])
    of.replace("resourceslices", [gpus_of("dra", 4)], 0)
    asking = pod("p", 0, limits={resource: "4"})
    gpus = Gpus([*GPUS.names, GpuName("nvidia.com/other", "whole")])

    def found(made: Object) -> list[Unschedulable]:
        return list(placer(of).unschedulable(AskedPod(made, gpus), of.view(0), PlacementSettings()))

    assert [each.cause for each in found(asking)] == ["resource"]
    of.replace("deviceclasses", [device_class(resource=resource)], 0)
    assert found(asking) == []
    (more,) = found(pod("p", 0, limits={resource: "5"}))
    assert (more.cause, more.wanted) == ("gpus", "at most 4, which is what the largest node has: dra")
    (label,) = found(pod("p", 0, limits={resource: "4"}, nodeSelector={"zone": "x"}))
    assert label.cause == "label"


def test_a_taint_that_keeps_the_last_nodes_away() -> None:
    (found,) = unschedulable(state([node("a", 4), node("b", taints=[TEAM])]), pod("p", 8))
    assert (found.cause, found.seen, found.lasting) == ("taint", "no toleration of team=x:NoSchedule", False)
    assert found.wanted == "one: 1 node would take the pod but for that"


def test_each_resource_is_on_some_node_but_all_are_on_none() -> None:
    of = state([node("a", memory="100Gi"), node("b", cpu="10")])
    (found,) = unschedulable(of, pod("p", 8, limits={"cpu": "90", "memory": "500Gi"}))
    assert (found.cause, found.seen) == ("together", "a pod that asks 90 CPUs, 500Gi memory, 8 nvidia.com/gpu")


def test_the_amount_is_of_a_node_that_has_the_rest_too() -> None:
    of = state([node("cpus", cpu="200", memory="64Gi"), node("memory", cpu="64"), node("less", cpu="32")])
    (found,) = unschedulable(of, pod("p", 8, limits={"cpu": "300", "memory": "500Gi"}))
    assert found.wanted == "what some node has; the largest node with 8 and enough of the rest has 64: memory"
    both = unschedulable(of, pod("p", 8, limits={"cpu": "300", "memory": "2Ti"}))
    assert [each.fix for each in both] == ["Ask for at most 200 CPUs", "Ask for at most 64Gi memory"]


def test_two_causes_are_reported_once_each() -> None:
    found = unschedulable(state(NODES), pod("p", 16, limits={"rdma/hca": "1"}))
    assert [each.cause for each in found] == ["resource", "gpus"]


MODEL = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


@pytest.mark.parametrize(
    ("nodes", "lasting"),
    [
        pytest.param([node("a", 4)], True, id="every node lists its GPUs"),
        pytest.param([node("a", 4), node("cpu", 0)], True, id="a node without GPUs"),
        pytest.param([node("a", 4), node("b", 0, resources=AWAY)], False, id="a node whose device plugin is away"),
        pytest.param(
            [node("a", 4), node("b", 0, resources={**AWAY, "nvidia.com/gpu.shared": "8"})],
            True,
            id="a node with renamed shares",
        ),
        pytest.param([node("a", 4), node("b", 0, labels=MODEL)], False, id="a node whose device plugin never came up"),
    ],
)
def test_how_many_gpus_a_node_may_have_that_lists_none_now_is_not_known(nodes: list[Object], lasting: bool) -> None:
    (found,) = unschedulable(state(nodes), pod("p", 8))
    assert (found.cause, found.lasting) == ("gpus", lasting)


@pytest.mark.parametrize(
    ("other", "lasting"),
    [
        pytest.param(node("b", 0, cpu="200", resources=AWAY), False, id="away"),
        pytest.param(node("b", 0, cpu="200", labels=MODEL), False, id="never came up"),
        pytest.param(node("b", 0, cpu="64", resources=AWAY), True, id="away, but with fewer CPUs too"),
        pytest.param(node("b", 0, cpu="200"), True, id="no GPU node"),
    ],
)
def test_cpus_beside_gpus_whose_device_plugin_is(other: Object, lasting: bool) -> None:
    (found,) = unschedulable(state([node("a", 4), other]), pod("p", 4, limits={"cpu": "150"}))
    assert (found.cause, found.lasting) == ("cpu", lasting)


def test_while_all_device_plugins_are_away_there_is_no_reason() -> None:
    assert unschedulable(state([node("a", 0, resources=AWAY)]), pod("p", 4)) == []


_NODES = st.builds(
    node,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([0, 2, 8]),
    cpu=st.sampled_from(["4", "96"]),
    labels=st.dictionaries(st.sampled_from(["pool", "POOL", "nvidia.com/gpu.product"]), st.sampled_from(["x", "X"])),
    taints=st.lists(st.sampled_from([TEAM, {**TEAM, "value": "y"}]), max_size=1),
    provider=st.sampled_from(["", "aws:///zone/i-0"]),
    resources=st.sampled_from([{}, AWAY]),
)
_PODS = [
    pod("p", 4),
    pod("p", 16),
    pod("p", 1, limits={"cpu": "50"}),
    pod("p", 1, limits={"cpu": "400"}),
    pod("p", nodeSelector={"pool": "y"}),
    pod("p", nodeSelector={"Pool": "x"}),
    pod("p", 0, limits={"amd.com/gpu": "1"}),
]


_AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["3", "90", "150"]),
        "memory": st.sampled_from(["1000Mi", "90Gi", "300Gi", "3Ti"]),
    },
)


@given(
    st.lists(
        st.builds(
            lambda cpu, memory, taints: {"cpu": cpu, "memory": memory, "taints": taints},
            st.sampled_from(["4", "96"]),
            st.sampled_from(["2Gi", "1055762868Ki"]),
            st.sampled_from([[], [TEAM]]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(_AMOUNTS, min_size=1, max_size=2),
    _AMOUNTS,
)
def test_who_asks_for_what_is_said_fits(
    machines: list[dict[str, Any]], asked: list[dict[str, str]], overhead: dict[str, str]
) -> None:
    of = state([node(f"n{number}", **each) for number, each in enumerate(machines)])
    made = pod("p", containers=[container(f"c{at}", limits=each) for at, each in enumerate(asked)], overhead=overhead)
    said = [each for each in unschedulable(of, made) if each.most]
    for reason in said:
        if (change := less(made, reason.cause, reason.most)) is None:
            assert reason.fix == "Use another RuntimeClass: the overhead of this one is too much"
            return
        text = amount_number(reason.cause, change.amount)
        assert f"Ask for at most {text}" in reason.fix
        made = change.change(text)
    # Where each amount is on some node, and none has all of them, no number is said.
    assert not said or not [each for each in unschedulable(of, made) if each.cause != "taint"]


@given(st.lists(st.one_of(_NODES, st.sampled_from(["a", "b", "c"])), max_size=12))
def test_a_state_with_a_history_says_the_same_as_one_that_was_just_listed(events: list[Object | str]) -> None:
    """Replicas have seen different events, and one that was just started has seen none."""
    of, now = state(), dict[str, Object]()
    for event in events:
        if isinstance(event, str):
            of.node_gone(event)
            now.pop(event, None)
        else:
            of.node_seen(event)
            now[event["metadata"]["name"]] = event
    fresh = state(now.values())
    assert of.view(0).elastic == fresh.view(0).elastic
    assert of.view(0).resources() == fresh.view(0).resources()
    for made in _PODS:
        assert unschedulable(of, made) == unschedulable(fresh, made)


T4 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4", "cloud.google.com/gke-nodepool": "t4"}
POOLS = [node("t4", 4, labels=T4), node("cpu", 0, labels={"cloud.google.com/gke-spot": "true"}, zone="zone-b")]
OF_T4, L4 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, {"cloud.google.com/gke-accelerator": "nvidia-l4"}


@pytest.mark.parametrize(
    ("made", "of_new_nodes"),
    [
        pytest.param(pod("p", nodeSelector=L4), True, id="a model of which no node has GPUs"),
        pytest.param(pod("p", 8, nodeSelector=L4), True, id="the same, and more GPUs than the nodes of others have"),
        pytest.param(pod("p", affinity=affinity(expression("karpenter.sh/nodepool", "In", "gpu"))), True, id="an empty pool"),
        pytest.param(pod("p", nodeSelector={"agentpool": "ndh100pool"}), True, id="a key without a domain"),
        pytest.param(pod("p", nodeSelector={"eks.amazonaws.com/instance-gpu-name": "l40s"}), True, id="a model of EKS"),
        pytest.param(pod("p", nodeSelector={"cloud.google.com/gke-spot": "true"}), True, id="a label of nodes without GPUs"),
        pytest.param(pod("p", nodeSelector=OF_T4 | {"topology.kubernetes.io/zone": "zone-b"}), True, id="labels of no one node"),
        pytest.param(pod("p", 8, nodeSelector=OF_T4), False, id="a model of which nodes have fewer GPUs"),
        pytest.param(pod("p", nodeSelector={"cloud.google.com/gke-acelerator": "nvidia-tesla-t4"}), False, id="a misspelt key"),
        pytest.param(pod("p", nodeSelector=dict.fromkeys(OF_T4, "NVIDIA-Tesla_T4")), False, id="a value in capitals"),
        pytest.param(pod("p", nodeSelector=dict.fromkeys(OF_T4, "nvidia-tesla-a1000")), True, id="a model that may come"),
        pytest.param(pod("p", nodeSelector={"nvidia.com/gpu.product": "L40S"}), False, id="a label that comes later"),
        pytest.param(pod("p", nodeSelector={"disk": "ssd"}), False, id="a label that somebody gives"),
        pytest.param(pod("p", 8), False, id="no label"),
        pytest.param(pod("p", 8, affinity=affinity(expression("agentpool", "NotIn", "a"))), False, id="nodes of no pool"),
    ],
)  # fmt: skip
def test_of_machines_that_are_made_on_demand_nothing_is_known(made: Object, of_new_nodes: bool) -> None:
    found = unschedulable(state(POOLS), made)
    assert {each.of_new_nodes for each in found} == {of_new_nodes}


def test_a_gpu_that_is_sick_for_now_may_come_back() -> None:
    sick = node("a", 7)
    sick["status"]["capacity"] = {**sick["status"]["allocatable"], "nvidia.com/gpu": "8"}
    (found,) = unschedulable(state([sick]), pod("p", 8))
    assert (found.wanted, found.lasting) == ("at most 7, which is what the largest node has now: a", False)
    assert unschedulable(state([sick]), pod("p", 9))[0].lasting


def test_shares_of_gpus_do_not_count_as_gpus_of_the_largest_node() -> None:
    of = state([node("a"), node("shared", 32, labels=SHARED)])
    (found,) = unschedulable(of, pod("p", 12))
    assert (found.wanted, found.lasting) == ("at most 8, which is what the largest nodes have: a, shared", True)


def test_a_larger_node_ends_the_reason_and_a_stale_state_reports_none() -> None:
    of = state([node("a")])
    assert unschedulable(of, pod("p", 9))
    of.node_seen(node("b", 16))
    assert not unschedulable(of, pod("p", 9))
    assert not placer(of).unschedulable(AskedPod(pod("p", 99), GPUS), of.view(999), PlacementSettings())


def test_the_names_of_a_tenant_are_quoted_and_cut() -> None:
    (found,) = unschedulable(state(NODES), pod("p", nodeSelector={"a\n": "b" * 5000}))
    assert "a\\n=" in found.seen
    assert len(found.wanted) < 400
