"""Tells which extended resources are GPUs, by the names in the policy: exact, or with a trailing `*`."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

from webhook.text import matches, number_of
from webhook.vendors.catalogue import every, labels, resources
from webhook.vendors.model import Divided, Profile, Resource

GpuKind = Literal["whole", "slice", "share"]
GPU_KINDS: Final[tuple[GpuKind, ...]] = ("whole", "slice", "share")
MODEL_LABELS: Final = labels("model")
"""Node labels with the name of the GPU model."""
_DIVIDED: Final[dict[str, list[Divided]]] = {}
for _each in sorted(every(Divided), key=lambda each: each.one == "share"):  # a slice may be shared
    _DIVIDED.setdefault(_each.resource, []).append(_each)
DIVIDED: Final = tuple(_DIVIDED)
"""Resources of which one is a whole GPU on some nodes, and a slice or a share on others, as the labels of the node say."""
COUNT_LABELS: Final = labels("count")
"""Node labels with the number of its GPUs. The first one that a node has counts."""
GPU_LABELS: Final = labels("present", "count", "model")
"""Labels of nodes that have GPUs, even if the device plugin offers none, unless their value is one of NO_GPUS."""
NO_GPUS: Final = ("", "0", "false")
_PROFILES: Final = every(Profile)
_ALONE: Final = tuple([each.name for each in resources("slice", "share") if each.alone])
_MAX_CACHED = 4096
"""Maximum number of resource names in the cache. Tenants write these names."""
_MAX_LENGTH = 317
"""Maximum length of a qualified name in Kubernetes."""


class GpuName(NamedTuple):
    """`name`: exact, or with a trailing `*`. `kind`: a whole GPU, a hardware slice (MIG), or a share of a GPU."""

    name: str
    kind: GpuKind


_WHOLE_OF: Final = {each.name: each.of for each in every(Resource) if each.of and each.one in GPU_KINDS}
SILICON: Final = {
    name: (whole, *[part for part, of in _WHOLE_OF.items() if of == whole])
    for whole in _WHOLE_OF.values()
    for name in (whole, *[part for part, of in _WHOLE_OF.items() if of == whole])
}
"""For each resource that hands out the same devices as others, under another name: all of them, the whole devices first."""
PARTS: Final[dict[GpuKind, str]] = {"slice": "slices of GPUs", "share": "shares of GPUs"}
"""What several of them are called."""


class One(NamedTuple):
    """What one of a resource is on a node. `said`: the label that says so."""

    kind: GpuKind
    slices: int = 1
    """How many slices a GPU is cut into."""
    shares: float = 1.0
    """How many pods share a GPU, or a slice of one."""
    said: str = ""
    alone: bool = False
    """A program uses only one of it."""
    refused: bool = False
    """The device plugin refuses a pod that asks for two."""


WHOLE_GPU: Final = One("whole")


def one_on(resource: str, kind: GpuKind, node: Mapping[str, str], offered: int = 0) -> One:
    """What one of `resource` is on a node that has these labels. `kind`: what it is by the policy.

    `offered`: its allocatable amount. Some labels say that GPUs are shared, but not by how many pods. Then that number is
    `offered` divided by the labelled number of GPUs, and 2 at least.
    """
    one = One(kind, alone=kind == "share" or any([matches(pattern, resource) for pattern in _ALONE]))
    for label in _DIVIDED.get(resource, ()):
        value = node.get(label.key)
        if value is None or not fnmatchcase(value, label.value):
            continue
        into = number_of(node.get(label.into)) or 0
        if label.key == label.into and into <= 1:
            continue
        said = f"{label.key}={value}"
        if label.one == "slice":
            size = next((each.per_gpu for each in _PROFILES if fnmatchcase(value, each.size)), 1)
            one = One("slice", size, said=said, alone=label.alone)
        elif one.kind != "share":
            shares = into if into > 1 else max(2.0, offered / (labelled_count(node) or 1))
            one = One("share", one.slices, shares, said, label.alone, label.refused)
    return one


def labelled_count(node: Mapping[str, str]) -> int:
    """How many GPUs a node has by its labels; 0 if none says it. Where GPUs are sliced it may be the number of slices."""
    return next((number_of(node[key]) or 0 for key in COUNT_LABELS if key in node), 0)


class Gpus:
    """The GPU resources of a policy. Immutable, except for a bounded cache of lookups."""

    def __init__(self, names: Iterable[GpuName]) -> None:
        self.names = tuple(names)
        self.key = repr(self.names)
        """Equal for equal `names`. A text is hashed once, a tuple at each lookup."""
        self._kinds = _Kinds(self.names)
        self.kind: Callable[[str], GpuKind | None] = self._kinds.__getitem__
        """The kind of GPU of a resource name; None if it is no GPU (`cpu`, `nvidia.com/gpumem`)."""

    def knows(self, resource: str) -> bool:
        """Whether a resource is a GPU."""
        return self.kind(resource) is not None

    def among(self, resources: Iterable[str]) -> list[str]:
        """The resources that are GPUs, in the given order."""
        kind = self.kind
        return [name for name in resources if kind(name) is not None]


class _Kinds(dict[str, GpuKind | None]):
    """A cache of lookups. It saves 1 to 2 µs per name, and a review looks up dozens."""

    def __init__(self, names: tuple[GpuName, ...]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, resource: str) -> GpuKind | None:
        if len(self) >= _MAX_CACHED:
            self.clear()
        if len(resource) > _MAX_LENGTH:  # the API server refuses such a name: do not cache it
            return None
        kind = self[resource] = next((gpu.kind for gpu in self._names if matches(gpu.name, resource)), None)
        return kind


def vendor(resource: str) -> str:
    """The domain of a resource name: "nvidia.com" for "nvidia.com/mig-1g.10gb"."""
    return resource.partition("/")[0]


def is_same_vendor(resource: str, driver: str) -> bool:
    """Whether a resource and a driver of DRA are of one vendor, as nvidia.com/gpu and gpu.nvidia.com."""
    return driver == vendor(resource) or driver.endswith(f".{vendor(resource)}")
