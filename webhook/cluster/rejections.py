"""Pods that the kubelet of their node rejected after the scheduler had bound them there.

A pod is counted when it fails while it is known to be bound. So a pod that failed before this program started, or while no
watch was alive, is not counted, and none is counted twice.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

REASONS: Final = ("UnexpectedAdmissionError", "OutOf", "TopologyAffinityError")
"""Beginnings of the `status.reason` of such pods. After `OutOf` follows the name of a resource."""
_MAX_NODES: Final = 100
OTHER: Final = "_other"
"""Stands for all other nodes, models or namespaces where a list of them is bounded. No such object has this name."""


class Rejections:
    """Counts pods by node and reason since the program started. Nodes beyond the first 100 are counted together, as OTHER."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._nodes: set[str] = set()

    def failed(self, node: str, reason: str) -> None:
        """A bound pod has failed with this `status.reason`."""
        known = next((known for known in REASONS if reason.startswith(known)), None)
        if known is None:
            return
        if len(self._nodes) < _MAX_NODES:
            self._nodes.add(node)
        self.counts[node if node in self._nodes else OTHER, known] += 1
