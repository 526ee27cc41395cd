"""Nodes whose GPUs are shared by time-slicing or MPS, beside whole ones. A slot of such a node is no GPU."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, pod, required
from tests.e2e.behaviour.case import Case, Json, counts, not_told, on, refused, runs, told, waits
from tests.e2e.behaviour.made import taken

STRATEGY, PRODUCT = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.product"
SLOTS_ARE_NO_GPUS = "32 slots of 8 GPUs are not 12 GPUs"


def sliced(name: str, gpus: int = 8, replicas: int = 4, **more: Any) -> Json:
    """A node with time-sliced GPUs: 32 slots."""
    return node(name, gpus, replicas=replicas, **more)


def mps(name: str, **more: Any) -> Json:
    return sliced(name, labels={STRATEGY: "mps", "nvidia.com/mps.capable": "true"}, **more)


def bare(name: str, gpus: int = 8) -> Json:
    """A node with whole GPUs that nothing labelled: GPU Feature Discovery does not run on every node."""
    return node(name, 0, resources={"nvidia.com/gpu": str(gpus)})


WHOLE_AND_SLICED = [sliced("a"), node("b")]
CASES = [
    Case("a pod of two goes to whole GPUs", WHOLE_AND_SLICED, [pod("one", 2)], [on("b"), not_told("one", "share")]),
    Case(
        "a pod of two goes to whole GPUs, though the sliced node is fuller",
        WHOLE_AND_SLICED,
        [pod("one", 2)],
        [on("b")],
        there=[taken("a", 30)],
    ),
    Case(
        "a pod of two goes to whole GPUs, though the whole node is fuller",
        WHOLE_AND_SLICED,
        [pod("one", 2)],
        [on("b")],
        there=[taken("b", 6)],
    ),
    Case(
        "a pod of two goes to whole GPUs before MPS",
        [mps("a"), node("b")],
        [pod("one", 2)],
        [on("b"), not_told("one", "share")],
    ),
    Case(
        "replicas of two go to whole GPUs",
        [sliced("a"), node("b"), node("c")],
        [deployment("chat", 4, 2)],
        [counts(b=2, c=2)],
    ),
    Case(
        "a Job of pods of four fills whole GPUs",
        [sliced("a"), node("b"), node("c")],
        [job("train", 4, 4)],
        [counts(b=2, c=2)],
    ),
    Case(
        "a pod of twelve is refused: no node has so many GPUs",
        WHOLE_AND_SLICED,
        [pod("one", 12)],
        [refused("one", "at most 8")],
        fewer=SLOTS_ARE_NO_GPUS,
    ),
    Case(
        "a pod of twelve is refused where all GPUs are sliced",
        [sliced("a")],
        [pod("one", 12)],
        [refused("one", "at most 8")],
        fewer=SLOTS_ARE_NO_GPUS,
    ),
    Case(
        "a pod of two takes slots where no whole GPUs are left",
        WHOLE_AND_SLICED,
        [pod("one", 2)],
        [on("a")],
        there=[taken("b", 8)],
    ),
    Case(
        "a pod of two that can only go to slots is told, by the strategy that it selects",
        WHOLE_AND_SLICED,
        [pod("one", 2, nodeSelector={STRATEGY: "time-slicing"})],
        [on("a"), told("one", "share")],
    ),
    Case(
        "a pod of two that can only go to slots is told, by the product that it selects",
        WHOLE_AND_SLICED,
        [pod("one", 2, nodeSelector={PRODUCT: "NVIDIA-A100-SXM4-80GB-SHARED"})],
        [on("a"), told("one", "share")],
    ),
    Case(
        "a pod of two that can only go to slots is told, by its affinity",
        WHOLE_AND_SLICED,
        [pod("one", 2, affinity=required(STRATEGY, "In", "time-slicing"))],
        [on("a"), told("one", "share")],
    ),
    Case(
        "a pod of two that can only go to slots since there are no others is told",
        [sliced("a")],
        [pod("one", 2)],
        [on("a"), told("one", "share")],
    ),
    Case(
        "a pod of two on MPS is refused: the node would refuse it",
        [mps("a"), node("b")],
        [pod("one", 2, nodeSelector={STRATEGY: "mps"})],
        [refused("one", "MPS")],
        fewer="an MPS daemon refuses the second share at the node",
    ),
    Case(
        "a pod of one that selects slots gets one",
        WHOLE_AND_SLICED,
        [pod("one", nodeSelector={STRATEGY: "time-slicing"})],
        [on("a"), not_told("one", "share")],
    ),
    Case(
        "a pod of one that selects whole GPUs gets one",
        WHOLE_AND_SLICED,
        [pod("one", nodeSelector={STRATEGY: "none"})],
        [on("b"), not_told("one", "share")],
    ),
    Case("a pod of one runs", WHOLE_AND_SLICED, [pod("one")], [runs("one"), not_told("one", "share")]),
    Case("forty pods of one fill whole GPUs and slots", WHOLE_AND_SLICED, [job("train", 40)], [counts(a=32, b=8)]),
    Case(
        "a renamed slot goes to its node",
        [node("a", 2, replicas=4, renamed=True), node("b")],
        [pod("one", resource="nvidia.com/gpu.shared")],
        [on("a"), not_told("one", "share")],
    ),
    Case(
        "two renamed slots are told",
        [node("a", 2, replicas=4, renamed=True), node("b")],
        [pod("one", 2, resource="nvidia.com/gpu.shared")],
        [on("a"), told("one", "share")],
    ),
    Case(
        "a whole GPU does not go to renamed slots",
        [node("a", 2, replicas=4, renamed=True), node("b")],
        [pod("one")],
        [on("b"), not_told("one", "share")],
    ),
    Case(
        "whole GPUs that are all taken and no slots: the pod waits, as without us",
        [node("b")],
        [pod("one", 2)],
        [waits("one"), not_told("one", "share")],
        there=[taken("b", 7)],
        without=[waits("one")],
    ),
    Case(
        "slots are told by the number of replicas alone",
        [sliced("a", labels={STRATEGY: "", PRODUCT: "NVIDIA-A100-SXM4-80GB"}), node("b")],
        [pod("one", 2)],
        [on("b")],
        there=[taken("a", 30)],
    ),
    Case(
        "a pod of two goes to whole GPUs without labels, and hears nothing of shares",
        [sliced("a"), bare("b")],
        [pod("one", 2)],
        [on("b"), not_told("one", "share")],
    ),
    Case(
        "a pod of two goes to whole GPUs without labels, though the sliced node is fuller",
        [sliced("a"), bare("b")],
        [pod("one", 2)],
        [on("b")],
        there=[taken("a", 30)],
    ),
    Case(
        "a pod of twelve is refused beside whole GPUs without labels",
        [sliced("a"), bare("b")],
        [pod("one", 12)],
        [refused("one", "at most 8")],
        fewer=SLOTS_ARE_NO_GPUS,
    ),
]
