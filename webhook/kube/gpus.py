"""Which extended resources are GPUs. Names come from the policy, exact or with a trailing `*`, never by bare prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from webhook.text import matches

GpuKind = Literal["whole", "slice", "share"]
MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
"""Labels of nodes with the name of the GPU model: GPU Feature Discovery and its equals of other vendors and clouds."""
_MAX_REMEMBERED = 4096  # resource names are written by tenants: the memory of them is bounded
_MAX_LENGTH = 317  # of a qualified name, as Kubernetes takes it


class GpuName(NamedTuple):
    """`name` exact or with a trailing `*`; `kind`: a whole GPU, a hardware slice of one (MIG), or a share of one."""

    name: str
    kind: GpuKind


class Gpus:
    """Tells GPUs from other resources. Immutable but for a bounded memory of names already asked for."""

    def __init__(self, names: Iterable[GpuName]) -> None:
        self.names = tuple(names)
        self._kinds = _Kinds(self.names)
        self.kind: Callable[[str], GpuKind | None] = self._kinds.__getitem__
        """The kind of GPU that a resource names, or None where it is none (`cpu`, `nvidia.com/gpumem`)."""

    def among(self, resources: Iterable[str]) -> list[str]:
        """The GPU names among `resources`, in their order."""
        kind = self.kind
        return [name for name in resources if kind(name) is not None]


class _Kinds(dict[str, GpuKind | None]):
    """Caches the answers: saves 1 to 2 µs for each name, and a review asks for dozens."""

    def __init__(self, names: tuple[GpuName, ...]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, resource: str) -> GpuKind | None:
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
        if len(resource) > _MAX_LENGTH:  # the API server takes no such name: no GPU, and nothing that caches keep
            return None
        kind = self[resource] = next((gpu.kind for gpu in self._names if matches(gpu.name, resource)), None)
        return kind


def vendor(resource: str) -> str:
    """The domain of a resource name: "nvidia.com" of "nvidia.com/mig-1g.10gb"."""
    return resource.partition("/")[0]
