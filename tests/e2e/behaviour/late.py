"""What is not so when the pod is created, and becomes so without anybody changing the pod."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, pod, required
from tests.e2e.behaviour.case import Case, Change, Json, on, runs, waits
from tests.e2e.behaviour.made import affinity, taken

A, B = node("a"), node("b")
MODEL = "nvidia.com/gpu.product"
GATE = [{"name": "example.com/gate"}]


def labelled(**labels: str) -> Json:
    return {"metadata": {"labels": labels}}


def offering(name: str, count: str) -> Json:
    return {"status": {"allocatable": {name: count}, "capacity": {name: count}}}


def runs_once(said: str, change: Json, first: Json = A, **spec: Any) -> Case:
    """A pod runs on the only node once this has changed in it."""
    subresource = "status" if "status" in change else ""
    return Case(said, [first], [pod("one", **spec)], [on("a")], later=[Change("Node", "a", change, subresource)])


BOTH = {"resources": {"limits": {"nvidia.com/gpu": "1", "rdma/hca": "1"}}}
TAINTED = node("a", taints=["maintenance=yes:NoSchedule"])
NO_GPUS = node("a", resources={"nvidia.com/gpu": "0"})
A100 = labelled(**{"gpu-type": "a100"})
CASES = [
    runs_once("a label that comes late", A100, nodeSelector={"gpu-type": "a100"}),
    runs_once(
        "a model that is labelled late", labelled(**{MODEL: "NVIDIA-GB200"}), nodeSelector={MODEL: "NVIDIA-GB200"}
    ),
    runs_once("a label of affinity that comes late", labelled(fabric="ib"), affinity=required("fabric", "In", "ib")),
    runs_once("GPUs that a device plugin offers late", offering("nvidia.com/gpu", "8"), NO_GPUS),
    runs_once("a network card that a device plugin offers late", offering("rdma/hca", "8"), container=BOTH),
    runs_once("a slice that is cut late", offering("nvidia.com/mig-2g.20gb", "3"), resource="nvidia.com/mig-2g.20gb"),
    runs_once("a node that is cordoned no more", {"spec": {"unschedulable": None}}, node("a", cordoned=True)),
    runs_once("a taint that goes", {"spec": {"taints": None}}, TAINTED),
    Case(
        "a taint that goes, for a Deployment",
        [TAINTED],
        [deployment("chat", 2)],
        [runs(count=2)],
        later=[Change("Node", "a", {"spec": {"taints": None}})],
    ),
    Case(
        "a label that comes late, for a Deployment",
        [A, B],
        [deployment("chat", 2, nodeSelector={"gpu-type": "a100"})],
        [runs(count=2)],
        later=[Change("Node", "a", A100)],
    ),
    Case("a node that comes late", [A], [pod("one", 8)], [on("b")], there=[taken("a", 1)], later=[B]),
    Case(
        "a pod that ends makes room",
        [A],
        [pod("one", 8)],
        [on("a")],
        there=[taken("a", 1, "first")],
        later=[Change("Pod", "first")],
    ),
    Case(
        "a gate that opens when the node is labelled",
        [A, B],
        [pod("one", schedulingGates=GATE, nodeSelector={"gpu-type": "a100"})],
        [on("b")],
        later=[Change("Node", "b", A100), Change("Pod", "one", {"spec": {"schedulingGates": None}})],
    ),
    Case("a gate that stays closed", [A], [pod("one", schedulingGates=GATE)], [waits("one")], without=[waits("one")]),
    Case(
        "a pod that must be alone waits for the other to end",
        [A],
        [pod("one", affinity=affinity("first", anti=True))],
        [on("a")],
        there=[taken("a", 1, "first")],
        later=[Change("Pod", "first")],
    ),
    Case(
        "an architecture that comes late",
        [A],
        [pod("one", nodeSelector={"kubernetes.io/arch": "arm64"})],
        [on("b")],
        later=[node("b", labels={"kubernetes.io/arch": "arm64"})],
    ),
]
