"""Tells which extended resources are GPUs, by the names in the policy: exact, or with a trailing `*`."""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from webhook.text import matches
from webhook.vendors.catalogue import labels

GpuKind = Literal["whole", "slice", "share"]
MODEL_LABELS = labels("model")
"""Node labels with the name of the GPU model."""
_MAX_CACHED = 4096
"""Maximum number of resource names in the cache. Tenants write these names."""
_MAX_LENGTH = 317
"""Maximum length of a qualified name in Kubernetes."""


class GpuName(NamedTuple):
    """`name`: exact, or with a trailing `*`. `kind`: a whole GPU, a hardware slice (MIG), or a share of a GPU."""

    name: str
    kind: GpuKind


class Gpus:
    """The GPU resources of a policy. Immutable, except for a bounded cache of lookups."""

    def __init__(self, names: Iterable[GpuName]) -> None:
        self.names = tuple(names)
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
