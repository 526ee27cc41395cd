"""GPUs that a pod requests without a GPU resource of the policy: from HAMi, Volcano, Aliyun, KAI or Run:ai.

Such a pod is a GPU pod: it needs the tolerations, and it has a class. The system that serves these GPUs chooses the node and the
part of a GPU. DRA claims are not covered here: only the ResourceSlices tell which devices they are for.
"""

from collections.abc import Mapping
from typing import Any, Final

from webhook.kube.gpus import vendor
from webhook.kube.pod import Pod, annotations_of, container_specs, is_zero, requests_of
from webhook.text import matches
from webhook.vendors.catalogue import every, resources
from webhook.vendors.model import DeviceClass, Part, Scheduler, SharedBy

DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""With the name of a DeviceClass after it: a resource that DRA serves (KEP-5004). To the API server it is a native resource,
which may be requested without a limit, and the scheduler counts the request."""
CLASS_VENDORS: Final = {each.name: each.vendor for each in every(DeviceClass)}
"""The device classes for whole GPUs that the drivers bring, which have the names of the drivers, and the vendor of each."""
RESOURCES: Final = {each.name: each.vendor or vendor(each.name) for each in resources("part")} | {
    f"{DEVICE_CLASS}{name}": of for name, of in CLASS_VENDORS.items()
}
"""Resource names, exact or with a trailing `*`, and the vendor of the GPU."""
_PREFIXES: Final = tuple([pattern.removesuffix("*") for pattern in RESOURCES])
GPU_CLASSES: Final = tuple([name for name in RESOURCES if name.startswith(DEVICE_CLASS)])
"""Device classes that are known to be for whole GPUs."""
_PARTS: Final = {part.key: part.vendor for part in every(Part)}
FRACTIONS: Final = frozenset(_PARTS)
"""Annotations by which the schedulers of KAI and Run:ai assign parts of GPUs."""
KAI: Final = tuple([scheduler.name for scheduler in every(Scheduler) if scheduler.parts])
"""The names of these schedulers."""
PART_CONFIGMAP, FRACTION_CONTAINER = next((each.config_map, each.container) for each in every(SharedBy))
"""Annotations with the beginning of the name of the ConfigMap in which they write which GPU the container gets, and with the
container's name."""


def is_gpu_driver(driver: str) -> bool:
    """Whether the name of a DRA driver says that its devices are GPUs, as gpu.nvidia.com, gpu.amd.com and gpu.intel.com do."""
    return "gpu" in driver


def fraction_container(pod: Pod) -> str:
    """The name of the only container that gets the part of a GPU: the first, or the one that an annotation names.

    Source: kai-scheduler/KAI-Scheduler pkg/common/resources (GetFractionContainerRef).
    """
    names = [str(container.get("name")) for container in pod["spec"].get("containers") or ()]
    return annotations_of(pod).get(FRACTION_CONTAINER, next(iter(names), ""))


def part_container(pod: Pod) -> str | None:
    """The name of the container for which KAI or Run:ai has a part of a GPU; None if the pod asks for none, or another scheduler
    would have to read that, or none looks at the pod, since it names its node. On a cluster without KAI it never runs."""
    by_kai = pod["spec"].get("schedulerName") in KAI and not pod["spec"].get("nodeName")
    return fraction_container(pod) if by_kai and not FRACTIONS.isdisjoint(annotations_of(pod)) else None


def other_gpus(pod: Pod) -> frozenset[str]:
    """The vendors of the GPUs that a pod requests in one of these ways, as domains: "nvidia.com"."""
    vendors = {_PARTS[key] for key in FRACTIONS.intersection(annotations_of(pod))}
    for container in container_specs(pod):
        vendors |= _vendors(container)
    return frozenset(vendors)


def has_other_gpu(container: Mapping[str, Any]) -> bool:
    """Whether a container requests such a GPU as a resource."""
    return bool(_vendors(container))


def _vendors(container: Mapping[str, Any]) -> set[str]:
    vendors = set()
    for name, quantity in requests_of(container).items():
        if name.startswith(_PREFIXES) and not is_zero(quantity):
            vendors.update([vendor for pattern, vendor in RESOURCES.items() if matches(pattern, name)])
    return vendors
