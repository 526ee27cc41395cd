"""GPUs that a pod gets by other ways than a resource of the policy: from HAMi, Volcano, Aliyun, KAI and Run:ai.

Such a pod is a GPU pod: it needs the tolerations, and it has a class. Which node it goes to, and which part of which GPU it gets,
is for whoever serves it. Claims of DRA are not here: what they are of is known from the ResourceSlices alone.
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
_BEGINNINGS: Final = tuple([pattern.removesuffix("*") for pattern in _RESOURCES])
FRACTIONS: Final = frozenset(("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"))
"""Annotations of KAI and Run:ai: their schedulers hand out parts of NVIDIA's GPUs."""


def other_gpus(pod: Pod) -> frozenset[str]:
    """The vendors of such GPUs that a pod asks for, as domains: "nvidia.com"."""
    vendors = set() if FRACTIONS.isdisjoint(annotations_of(pod)) else {_NVIDIA}
    for container in containers(pod):
        vendors |= _vendors(container.spec)
    return frozenset(vendors)


def has_other_gpu(container: Mapping[str, Any]) -> bool:
    """Whether one container asks for such a GPU by a resource."""
    return bool(_vendors(container))


def _vendors(container: Mapping[str, Any]) -> set[str]:
    vendors = set()
    for name, quantity in requests_of(container).items():
        if name.startswith(_BEGINNINGS) and not is_zero(quantity):
            vendors.update([vendor for pattern, vendor in _RESOURCES.items() if matches(pattern, name)])
    return vendors
