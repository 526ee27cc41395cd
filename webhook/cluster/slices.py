"""ResourceSlices of DRA: which nodes have GPUs that no device plugin counts."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any


class Slices:
    """The ResourceSlices of GPU drivers. Keeps `nodes`, the set of nodes that have any, up to date; `version` rises with
    it."""

    def __init__(self, nodes: set[str]) -> None:
        self.version = 0
        self._nodes = nodes
        self._slices: dict[str, tuple[str, str]] = {}
        """Node and driver of each slice, by its name."""
        self._count: Counter[str] = Counter()
        """Number of slices by node."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        self.gone(name)
        node = spec.get("nodeName")
        if node and is_gpu_driver(spec.get("driver") or ""):
            self._slices[name] = node, spec["driver"]
            self._count[node] += 1
            self.version += node not in self._nodes
            self._nodes.add(node)

    def gone(self, name: str) -> None:
        if name not in self._slices:
            return
        node, _ = self._slices.pop(name)
        self._count[node] -= 1
        if not self._count[node]:
            del self._count[node]
            self.version += 1
            self._nodes.discard(node)

    @property
    def drivers(self) -> tuple[str, ...]:
        """The drivers of all slices, sorted."""
        return tuple(sorted({driver for _, driver in self._slices.values()}))

    def __iter__(self) -> Iterator[str]:
        return iter(self._slices)


def is_gpu_driver(driver: str) -> bool:
    """Whether the name of a DRA driver says that its devices are GPUs, as gpu.nvidia.com, gpu.amd.com and gpu.intel.com do."""
    return "gpu" in driver
