"""Nodes whose GPUs are shared by time-slicing or MPS, beside whole ones. A slot of such a node is no GPU."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, pod, required
from tests.e2e.behaviour.case import Case, Json, counts, not_told, refused, runs, told, waits
from tests.e2e.behaviour.made import goes_to, taken

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


BOTH = [sliced("a"), node("b")]
RENAMED = [node("a", 2, replicas=4, renamed=True), node("b")]
UNLABELLED = [sliced("a"), bare("b")]
FULLER = [taken("a", 30)]
TOLD, UNTOLD, TOO_MANY = told("one", "share"), not_told("one", "share"), refused("one", "at most 8")
CASES = [
    goes_to("b", "a pod of two goes to whole GPUs", BOTH, 2, also=[UNTOLD]),
    goes_to("b", "a pod of two goes to whole GPUs, though the sliced node is fuller", BOTH, 2, there=FULLER),
    goes_to("b", "a pod of two goes to whole GPUs, though the whole node is fuller", BOTH, 2, there=[taken("b", 6)]),
    goes_to("b", "a pod of two goes to whole GPUs before MPS", [mps("a"), node("b")], 2, also=[UNTOLD]),
    Case("replicas of two go to whole GPUs", [*BOTH, node("c")], [deployment("chat", 4, 2)], [counts(b=2, c=2)]),
    Case("a Job of pods of four fills whole GPUs", [*BOTH, node("c")], [job("train", 4, 4)], [counts(b=2, c=2)]),
    Case(
        "a pod of twelve is refused: no node has so many GPUs",
        BOTH,
        [pod("one", 12)],
        [TOO_MANY],
        fewer=SLOTS_ARE_NO_GPUS,
    ),
    Case(
        "a pod of twelve is refused where all GPUs are sliced",
        [sliced("a")],
        [pod("one", 12)],
        [TOO_MANY],
        fewer=SLOTS_ARE_NO_GPUS,
    ),
    goes_to("a", "a pod of two takes slots where no whole GPUs are left", BOTH, 2, there=[taken("b", 8)]),
    goes_to(
        "a",
        "a pod of two that can only go to slots is told, by the strategy that it selects",
        BOTH,
        2,
        nodeSelector={STRATEGY: "time-slicing"},
        also=[TOLD],
    ),
    goes_to(
        "a",
        "a pod of two that can only go to slots is told, by the product that it selects",
        BOTH,
        2,
        nodeSelector={PRODUCT: "NVIDIA-A100-SXM4-80GB-SHARED"},
        also=[TOLD],
    ),
    goes_to(
        "a",
        "a pod of two that can only go to slots is told, by its affinity",
        BOTH,
        2,
        affinity=required(STRATEGY, "In", "time-slicing"),
        also=[TOLD],
    ),
    goes_to(
        "a", "a pod of two that can only go to slots since there are no others is told", [sliced("a")], 2, also=[TOLD]
    ),
    Case(
        "a pod of two on MPS is refused: the node would refuse it",
        [mps("a"), node("b")],
        [pod("one", 2, nodeSelector={STRATEGY: "mps"})],
        [refused("one", "MPS")],
        fewer="an MPS daemon refuses the second share at the node",
    ),
    goes_to(
        "a", "a pod of one that selects slots gets one", BOTH, nodeSelector={STRATEGY: "time-slicing"}, also=[UNTOLD]
    ),
    goes_to("b", "a pod of one that selects whole GPUs gets one", BOTH, nodeSelector={STRATEGY: "none"}, also=[UNTOLD]),
    Case("a pod of one runs", BOTH, [pod("one")], [runs("one"), UNTOLD]),
    Case("forty pods of one fill whole GPUs and slots", BOTH, [job("train", 40)], [counts(a=32, b=8)]),
    goes_to("a", "a renamed slot goes to its node", RENAMED, resource="nvidia.com/gpu.shared", also=[UNTOLD]),
    goes_to("a", "two renamed slots are told", RENAMED, 2, resource="nvidia.com/gpu.shared", also=[TOLD]),
    goes_to("b", "a whole GPU does not go to renamed slots", RENAMED, also=[UNTOLD]),
    Case(
        "whole GPUs that are all taken and no slots: the pod waits, as without us",
        [node("b")],
        [pod("one", 2)],
        [waits("one"), UNTOLD],
        there=[taken("b", 7)],
        without=[waits("one")],
    ),
    goes_to(
        "b",
        "slots are told by the number of replicas alone",
        [sliced("a", labels={STRATEGY: "", PRODUCT: "NVIDIA-A100-SXM4-80GB"}), node("b")],
        2,
        there=FULLER,
    ),
    goes_to(
        "b", "a pod of two goes to whole GPUs without labels, and hears nothing of shares", UNLABELLED, 2, also=[UNTOLD]
    ),
    goes_to(
        "b",
        "a pod of two goes to whole GPUs without labels, though the sliced node is fuller",
        UNLABELLED,
        2,
        there=FULLER,
    ),
    Case(
        "a pod of twelve is refused beside whole GPUs without labels",
        UNLABELLED,
        [pod("one", 12)],
        [TOO_MANY],
        fewer=SLOTS_ARE_NO_GPUS,
    ),
]
