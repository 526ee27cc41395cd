"""More than one share of a GPU, or more than one slice."""

from dataclasses import replace

from tests.builders import POOLS, TWO_NODES, Case, case, container
from tests.controlplane.objects import pod
from webhook.rules.gpu_sharing import GpuSharing

RULE = GpuSharing()
STRATEGY = "nvidia.com/gpu.sharing-strategy"
ALL_SHARED = replace(TWO_NODES, labels={"gpu-a1": {STRATEGY: "time-slicing"}, "gpu-a2": {STRATEGY: "time-slicing"}})
SOME_SHARED = replace(TWO_NODES, labels={"gpu-a1": {STRATEGY: "time-slicing"}, "gpu-a2": {STRATEGY: "none"}})

ALLOWED: dict[str, Case] = {
    "one share": case(pod(gpus=0, limits={"nvidia.com/gpu.shared": "1"}), cluster=POOLS),
    "two whole GPUs": case(pod(gpus=2)),
    "two GPUs where all nodes share theirs, which is for another rule": case(pod(gpus=2), cluster=ALL_SHARED),
    "two whole GPUs where some nodes share theirs": case(pod(gpus=2), cluster=SOME_SHARED),
    "one slice in each of two containers": case(
        pod(containers=(container(n, gpu=None, limits={"nvidia.com/mig-1g.10gb": "1"}) for n in "ab")), cluster=POOLS
    ),
    "two partitions of AMD's GPUs, which a program may use together": case(
        pod(gpus=0, limits={"amd.com/gpu": "2"}, nodeSelector={"amd.com/gpu.compute-memory-partition": "cpx_nps4"})
    ),
    "one share in each of two containers": case(
        pod(containers=(container(n, gpu=None, limits={"nvidia.com/gpu.shared": "1"}) for n in "ab")), cluster=POOLS
    ),
    "two GPUs of nodes that are chosen for not sharing": case(
        pod(gpus=2, nodeSelector={STRATEGY: "none"}), cluster=ALL_SHARED
    ),
    "two GPUs, and nobody can tell which nodes they are on": case(pod(gpus=2), cluster=ALL_SHARED),
    "another vendor": case(pod(gpus=0, limits={"amd.com/gpu": "2"}), cluster=ALL_SHARED),
}

_END = 'in container "main", wanted 1: a second share is no second GPU. Ask for 1, or for whole GPUs.'
_SLICES = "spec.containers[0].resources.limits"
_OF_SLICES = (
    ', which are slices of GPUs, in container "main", wanted 1: a program uses one slice only. '
    "Ask for one slice, of the size that it needs, or for whole GPUs."
)
_WHERE = "spec.containers[0].resources.limits[nvidia.com/gpu]"
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "two shares of nodes with MPS, whose daemon refuses them": (
        case(pod(gpus=2, nodeSelector={STRATEGY: "mps"})),
        [f"{_WHERE}: saw 2 shares of GPUs {_END}"],
    )
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "two shares by name": (
        case(pod(gpus=0, limits={"nvidia.com/gpu.shared": "2"}), cluster=POOLS),
        [f"spec.containers[0].resources.limits[nvidia.com/gpu.shared]: saw 2 shares of GPUs {_END}"],
    ),
    "two GPUs of nodes that GKE lets pods share": (
        case(pod(gpus=2, nodeSelector={"cloud.google.com/gke-max-shared-clients-per-gpu": "8"})),
        [f"{_WHERE}: saw 2 shares of GPUs {_END}"],
    ),
    "two slices of one size": (
        case(pod(gpus=0, limits={"nvidia.com/mig-1g.10gb": "2"}), cluster=POOLS),
        [f"{_SLICES}[nvidia.com/mig-1g.10gb]: saw 2 nvidia.com/mig-1g.10gb{_OF_SLICES}"],
    ),
    "slices of two sizes": (
        case(pod(gpus=0, limits={"nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-2g.20gb": "1"}), cluster=POOLS),
        [f"{_SLICES}[nvidia.com/mig-1g.10gb]: saw 1 nvidia.com/mig-1g.10gb, 1 nvidia.com/mig-2g.20gb{_OF_SLICES}"],
    ),
    "two GPUs of nodes on which each is a slice": (
        case(pod(gpus=2, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"})),
        [f"{_WHERE}: saw 2 nvidia.com/gpu{_OF_SLICES}"],
    ),
    "two GPUs of nodes that GKE cuts into slices": (
        case(pod(gpus=2, nodeSelector={"cloud.google.com/gke-gpu-partition-size": "1g.5gb"})),
        [f"{_WHERE}: saw 2 nvidia.com/gpu{_OF_SLICES}"],
    ),
    "two GPUs of a model that is shared": (
        case(pod(gpus=2, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"})),
        [f"{_WHERE}: saw 2 shares of GPUs {_END}"],
    ),
}
