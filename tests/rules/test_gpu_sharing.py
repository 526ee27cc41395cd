"""More than one share of a shared GPU."""

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
    "two slices, which are two": case(pod(gpus=0, limits={"nvidia.com/mig-1g.10gb": "2"}), cluster=POOLS),
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
_WHERE = "spec.containers[0].resources.limits[nvidia.com/gpu]"
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "two shares of nodes with MPS, whose daemon refuses them": (
        case(pod(gpus=2, nodeSelector={STRATEGY: "mps"})),
        [f"{_WHERE}: saw 2 shares of GPUs by MPS {_END}"],
    )
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "two shares by name": (
        case(pod(gpus=0, limits={"nvidia.com/gpu.shared": "2"}), cluster=POOLS),
        [f"spec.containers[0].resources.limits[nvidia.com/gpu.shared]: saw 2 shares of GPUs {_END}"],
    ),
    "two GPUs of a model that is shared": (
        case(pod(gpus=2, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"})),
        [f"{_WHERE}: saw 2 shares of GPUs {_END}"],
    ),
}
