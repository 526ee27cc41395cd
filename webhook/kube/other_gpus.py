"""GPUs that a pod requests without a GPU resource of the policy: from HAMi, Volcano, Aliyun, KAI or Run:ai.

Such a pod is a GPU pod: it needs the tolerations, and it has a class. The system that serves these GPUs chooses the node and the
part of a GPU. DRA claims are not covered here: only the ResourceSlices tell which devices they are for.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from webhook.kube.gpus import vendor
from webhook.kube.pod import Pod, annotations_of, container_specs, is_zero, requests_of
from webhook.text import matches
from webhook.vendors.catalogue import every, labels, resources
from webhook.vendors.model import ContainerPart, DeviceClass, Part, Scheduler, SharedBy

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
CONTAINER_PARTS: Final = every(ContainerPart)
"""And those of single containers."""
_OF_CONTAINERS: Final = tuple([part.prefix for part in CONTAINER_PARTS])
KAI: Final = tuple([scheduler.name for scheduler in every(Scheduler)])
"""The names of these schedulers."""
PART_CONFIGMAP, FRACTION_CONTAINER = next((each.config_map, each.container) for each in every(SharedBy))
"""Annotations with the beginning of the name of the ConfigMap in which they write which GPU the container gets, and with the
container's name."""

GPU_MEMORY: Final = labels("memory")[0]
"""The label of nodes by which KAI knows the memory of a GPU."""
_DEFAULT_MIB: Final = 100
"""What KAI takes the memory of a GPU for if no label of its node gives it."""
_MIB_IN_TIB: Final = 1 << 20


def is_gpu_driver(driver: str) -> bool:
    """Whether the name of a DRA driver says that its devices are GPUs, as gpu.nvidia.com, gpu.amd.com and gpu.intel.com do."""
    return "gpu" in driver


class PartKey(NamedTuple):
    """An annotation about the part of a GPU that one container gets: what its key says."""

    part: ContainerPart
    container: str
    word: str


def part_key(key: str) -> PartKey | None:
    """None for the key of any other annotation, and for one that its author must not write. The container is "" if the key has
    left it out."""
    if key.startswith(_OF_CONTAINERS):
        for part in CONTAINER_PARTS:
            rest = f".{key.removeprefix(part.prefix)}" if key.startswith(part.prefix) else ""
            for word in (*part.asks, *part.harmless):
                if rest.endswith(f".{word}"):
                    return PartKey(part, rest.removesuffix(f".{word}")[1:], word)
    return None


def part_keys(annotations: Mapping[str, str]) -> dict[str, PartKey]:
    """What the annotations about parts of single containers say, by their keys."""
    ours = [key for key in annotations if key.startswith(_OF_CONTAINERS)]
    return {key: found for key in ours if (found := part_key(key))}


def asks_for_part(annotations: Mapping[str, str]) -> bool:
    """Whether one of the annotations of a pod asks for a part of a GPU."""
    if not FRACTIONS.isdisjoint(annotations):
        return True
    return any([found.word in found.part.asks for found in part_keys(annotations).values()])


def fraction_container(pod: Pod) -> str:
    """The name of the only container that gets the part of a GPU: the first, or the one that annotations name. "" if they name
    several: that is refused.

    Source: kai-scheduler/KAI-Scheduler pkg/common/resources (GetFractionContainerRef).
    """
    notes = annotations_of(pod)
    if named := {found.container for found in part_keys(notes).values()}:
        return named.pop() if len(named) == 1 else ""
    names = [str(container.get("name")) for container in pod["spec"].get("containers") or ()]
    return notes.get(FRACTION_CONTAINER, next(iter(names), ""))


def gpu_memory(label: str) -> int:
    """What KAI takes the memory of a GPU for, in MiB. `label`: what the label of its node says; "" without one."""
    memory = int(label) if is_known(label) else _DEFAULT_MIB
    memory >>= 20 if memory >= _MIB_IN_TIB else 0  # some versions of GPU Feature Discovery wrote bytes
    return memory - memory % 100


def is_known(label: str) -> bool:
    """Whether a label gives the memory of a GPU."""
    return len(label) <= 16 and label.isdecimal()


def part_container(pod: Pod) -> str | None:
    """The name of the container for which KAI or Run:ai has a part of a GPU; None if the pod asks for none, or another scheduler
    would have to read that, or none looks at the pod, since it names its node. On a cluster without KAI it never runs."""
    by_kai = pod["spec"].get("schedulerName") in KAI and not pod["spec"].get("nodeName")
    return fraction_container(pod) if by_kai and asks_for_part(annotations_of(pod)) else None


def other_gpus(pod: Pod) -> frozenset[str]:
    """The vendors of the GPUs that a pod requests in one of these ways, as domains: "nvidia.com"."""
    notes = annotations_of(pod)
    vendors = {_PARTS[key] for key in FRACTIONS.intersection(notes)}
    vendors |= {found.part.vendor for found in part_keys(notes).values() if found.word in found.part.asks}
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
