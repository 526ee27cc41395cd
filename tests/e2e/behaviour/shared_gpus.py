"""Nodes whose GPUs are shared or sliced, and that call a share or a slice a GPU, beside nodes with whole ones."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import job, pod
from tests.e2e.behaviour.case import Case, Json, counts, not_told, refused, told
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


def divided(gpus: int, resource: str = "nvidia.com/gpu", **labels: str) -> Json:
    """Node `a`, which says by its labels alone that these are no whole GPUs."""
    return node("a", 0, resources={resource: str(gpus)}, labels=labels)


GKE = "cloud.google.com/gke-"
DIVIDED: dict[str, tuple[Json, str]] = {
    "slices by MIG that are called GPUs": (
        divided(56, **{PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/mig.strategy": "single"}),
        "slices of GPUs",
    ),
    "the partitions of GKE": (divided(56, **{f"{GKE}gpu-partition-size": "1g.10gb"}), "slices of GPUs"),
    "the time-sharing of GKE": (
        divided(64, **{f"{GKE}gpu-sharing-strategy": "time-sharing", f"{GKE}max-shared-clients-per-gpu": "8"}),
        "shares of GPUs",
    ),
}
PARTITIONED = divided(64, "amd.com/gpu", **{"amd.com/gpu.compute-memory-partition": "cpx_nps4"})
BOTH = [sliced("a"), node("b")]
RENAMED = [node("a", 2, replicas=4, renamed=True), node("b")]
UNLABELLED = [sliced("a"), bare("b")]
FULLER = [taken("a", 30)]
TOLD, UNTOLD, TOO_MANY = told("one", "shares of GPUs"), not_told("one", "shares of GPUs"), refused("one", "at most 8")
CASES = [
    goes_to("b", "a pod of two goes to whole GPUs", BOTH, 2, also=[UNTOLD]),
    goes_to("b", "a pod of two goes to whole GPUs, though the sliced node is fuller", BOTH, 2, there=FULLER),
    goes_to("b", "a pod of two goes to whole GPUs before MPS", [mps("a"), node("b")], 2, also=[UNTOLD]),
    Case("a Job of pods of four fills whole GPUs", [*BOTH, node("c")], [job("train", 4, 4)], [counts(b=2, c=2)]),
    Case(
        "a pod of twelve is refused: no node has so many GPUs",
        BOTH,
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
    Case(
        "a pod of two on MPS is refused: the node would refuse it",
        [mps("a"), node("b")],
        [pod("one", 2, nodeSelector={STRATEGY: "mps"})],
        [refused("one", "shares of GPUs")],
        fewer="an MPS daemon refuses the second share at the node",
    ),
    *[
        goes_to("b", f"a pod of two goes to whole GPUs before {way}", [of, bare("b")], 2, there=[taken("a", 54)])
        for way, (of, _) in DIVIDED.items()
    ],
    *[
        goes_to(
            "a",
            f"a pod of two takes {way} where no whole GPUs are left, and is told",
            [of, bare("b", 1)],
            2,
            also=[told("one", word)],
        )
        for way, (of, word) in DIVIDED.items()
    ],
    goes_to(
        "b",
        "a pod of two goes to whole GPUs before AMD's partitions that are called GPUs",
        [PARTITIONED, node("b", 0, resources={"amd.com/gpu": "8"})],
        2,
        resource="amd.com/gpu",
        there=[taken("a", 60, resource="amd.com/gpu")],
    ),
    Case("forty pods of one fill whole GPUs and slots", BOTH, [job("train", 40)], [counts(a=32, b=8)]),
    goes_to("a", "two renamed slots are told", RENAMED, 2, resource="nvidia.com/gpu.shared", also=[TOLD]),
    goes_to(
        "b",
        "slots are told by the number of replicas alone",
        [sliced("a", labels={STRATEGY: "", PRODUCT: "NVIDIA-A100-SXM4-80GB"}), node("b")],
        2,
        there=FULLER,
    ),
    goes_to(
        "b",
        "a pod of two goes to whole GPUs without labels, though the sliced node is fuller",
        UNLABELLED,
        2,
        there=FULLER,
    ),
]
