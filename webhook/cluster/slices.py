"""ResourceSlices of DRA, as far as they tell which nodes have GPUs that no device plugin counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any


class Slices:
    """Slices of GPUs by name. Keeps `nodes`, the names of the nodes that have any, up to date; `version` rises with it."""

    def __init__(self, nodes: set[str]) -> None:
        self.version = 0
        self._nodes = nodes
        self._node_of: dict[str, str] = {}
        self._driver_of: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    def seen(self, obj: Mapping[str, Any]) -> None:
        name, spec = obj["metadata"]["name"], obj["spec"]
        self.gone(name)
        node = spec.get("nodeName")
        if node and is_gpu_driver(spec.get("driver") or ""):
            self._node_of[name], self._driver_of[name] = node, spec["driver"]
            self._count[node] += 1
            self.version += node not in self._nodes
            self._nodes.add(node)

    def gone(self, name: str) -> None:
        node = self._node_of.pop(name, None)
        if node is None:
            return
        del self._driver_of[name]
        self._count[node] -= 1
        if not self._count[node]:
            del self._count[node]
            self.version += 1
            self._nodes.discard(node)

    @property
    def drivers(self) -> tuple[str, ...]:
        """Each once, sorted."""
        return tuple(sorted(set(self._driver_of.values())))

    def __iter__(self) -> Iterator[str]:
        return iter(self._node_of)


def is_gpu_driver(driver: str) -> bool:
    """Whether a driver's name says that its devices are GPUs: gpu.nvidia.com, gpu.amd.com, gpu.intel.com."""
    return "gpu" in driver
