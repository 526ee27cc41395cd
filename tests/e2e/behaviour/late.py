"""What is not so when the pod is created, and becomes so without anybody changing the pod."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, pod
from tests.e2e.behaviour.case import Case, Change, Json, on, runs
from tests.e2e.behaviour.made import affinity, taken

A, B = node("a"), node("b")
GATE = [{"name": "example.com/gate"}]


def labelled(**labels: str) -> Json:
    return {"metadata": {"labels": labels}}


def offering(name: str, count: str) -> Json:
    return {"status": {"allocatable": {name: count}, "capacity": {name: count}}}


def runs_once(said: str, change: Json, first: Json = A, **spec: Any) -> Case:
    """A pod runs on the only node once this has changed in it."""
    subresource = "status" if "status" in change else ""
    return Case(said, [first], [pod("one", **spec)], [on("a")], later=[Change("Node", "a", change, subresource)])


TAINTED = node("a", taints=["maintenance=yes:NoSchedule"])
NO_GPUS = node("a", resources={"nvidia.com/gpu": "0"})
A100 = labelled(**{"gpu-type": "a100"})
CASES = [
    runs_once("GPUs that a device plugin offers late", offering("nvidia.com/gpu", "8"), NO_GPUS),
    runs_once("a node that is cordoned no more", {"spec": {"unschedulable": None}}, node("a", cordoned=True)),
    runs_once("a taint that goes", {"spec": {"taints": None}}, TAINTED),
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
    Case(
        "a pod that must be alone waits for the other to end",
        [A],
        [pod("one", affinity=affinity("first", anti=True))],
        [on("a")],
        there=[taken("a", 1, "first")],
        later=[Change("Pod", "first")],
    ),
]
