"""What is not so when the pod is created, and becomes so without anybody changing the pod."""

from __future__ import annotations

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, pod, required
from tests.e2e.behaviour.case import Case, Change, on, runs, waits
from tests.e2e.behaviour.made import affinity, taken

A, B = node("a"), node("b")
MODEL = "nvidia.com/gpu.product"
GATE = [{"name": "example.com/gate"}]
LATER_8 = {"status": {"allocatable": {"nvidia.com/gpu": "8"}, "capacity": {"nvidia.com/gpu": "8"}}}
CASES = [
    Case(
        "a label that comes late",
        [A],
        [pod("one", nodeSelector={"gpu-type": "a100"})],
        [on("a")],
        later=[Change("Node", "a", {"metadata": {"labels": {"gpu-type": "a100"}}})],
    ),
    Case(
        "a label that comes late, for a Deployment",
        [A, B],
        [deployment("chat", 2, nodeSelector={"gpu-type": "a100"})],
        [runs(count=2)],
        later=[Change("Node", "a", {"metadata": {"labels": {"gpu-type": "a100"}}})],
    ),
    Case(
        "a model that is labelled late",
        [A],
        [pod("one", nodeSelector={MODEL: "NVIDIA-GB200"})],
        [on("a")],
        later=[Change("Node", "a", {"metadata": {"labels": {MODEL: "NVIDIA-GB200"}}})],
    ),
    Case(
        "a label of affinity that comes late",
        [A],
        [pod("one", affinity=required("fabric", "In", "ib"))],
        [on("a")],
        later=[Change("Node", "a", {"metadata": {"labels": {"fabric": "ib"}}})],
    ),
    Case(
        "GPUs that a device plugin offers late",
        [node("a", resources={"nvidia.com/gpu": "0"})],
        [pod("one")],
        [on("a")],
        later=[Change("Node", "a", LATER_8, "status")],
    ),
    Case(
        "a network card that a device plugin offers late",
        [A],
        [pod("one", container={"resources": {"limits": {"nvidia.com/gpu": "1", "rdma/hca": "1"}}})],
        [on("a")],
        later=[Change("Node", "a", {"status": {"allocatable": {"rdma/hca": "8"}}}, "status")],
    ),
    Case(
        "a slice that is cut late",
        [A],
        [pod("one", resource="nvidia.com/mig-2g.20gb")],
        [on("a")],
        later=[Change("Node", "a", {"status": {"allocatable": {"nvidia.com/mig-2g.20gb": "3"}}}, "status")],
    ),
    Case(
        "a node that comes late",
        [A],
        [pod("one", 8)],
        [on("b")],
        there=[taken("a", 1)],
        later=[B],
    ),
    Case(
        "a node that is cordoned no more",
        [node("a", cordoned=True)],
        [pod("one")],
        [on("a")],
        later=[Change("Node", "a", {"spec": {"unschedulable": None}})],
    ),
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
        later=[
            Change("Node", "b", {"metadata": {"labels": {"gpu-type": "a100"}}}),
            Change("Pod", "one", {"spec": {"schedulingGates": None}}),
        ],
    ),
    Case(
        "a gate that stays closed",
        [A],
        [pod("one", schedulingGates=GATE)],
        [waits("one")],
        without=[waits("one")],
    ),
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
