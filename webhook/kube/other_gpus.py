"""GPUs that a pod requests without a GPU resource of the policy: from HAMi, Volcano, Aliyun, KAI or Run:ai.

Such a pod is a GPU pod: it needs the tolerations, and it has a class. The system that serves these GPUs chooses the node and the
part of a GPU. DRA claims are not covered here: only the ResourceSlices tell which devices they are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from webhook.kube.pod import Pod, annotations_of, containers, is_zero, requests_of
from webhook.text import matches

_NVIDIA: Final = "nvidia.com"
_RESOURCES: Final = {
    "nvidia.com/gpumem*": _NVIDIA,  # HAMi
    "nvidia.com/gpucores": _NVIDIA,
    "volcano.sh/vgpu-*": _NVIDIA,
    "volcano.sh/gpu-*": _NVIDIA,
    "aliyun.com/gpu-*": _NVIDIA,
    "tencent.com/vcuda-*": _NVIDIA,
    "deviceclass.resource.kubernetes.io/gpu.nvidia.com": _NVIDIA,  # KEP-5004
    "deviceclass.resource.kubernetes.io/gpu.amd.com": "amd.com",
    "deviceclass.resource.kubernetes.io/gpu.intel.com": "gpu.intel.com",
}
"""Resource names, exact or with a trailing `*`, and the vendor of the GPU."""
_PREFIXES: Final = tuple([pattern.removesuffix("*") for pattern in _RESOURCES])
FRACTIONS: Final = frozenset(("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"))
"""Annotations by which the schedulers of KAI and Run:ai assign parts of NVIDIA GPUs."""


def other_gpus(pod: Pod) -> frozenset[str]:
    """The vendors of the GPUs that a pod requests in one of these ways, as domains: "nvidia.com"."""
    vendors = set() if FRACTIONS.isdisjoint(annotations_of(pod)) else {_NVIDIA}
    for container in containers(pod):
        vendors |= _vendors(container.spec)
    return frozenset(vendors)


def has_other_gpu(container: Mapping[str, Any]) -> bool:
    """Whether a container requests such a GPU as a resource."""
    return bool(_vendors(container))


def _vendors(container: Mapping[str, Any]) -> set[str]:
    vendors = set()
    for name, quantity in requests_of(container).items():
        if name.startswith(_PREFIXES) and not is_zero(quantity):
            vendors.update([vendor for pattern, vendor in _RESOURCES.items() if matches(pattern, name)])
    return vendors
