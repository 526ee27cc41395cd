"""Pods that the kubelet of their node rejected after the scheduler had bound them there.

Such a node looks free, gets the next pod, and rejects it too. So a namespace avoids a node that has rejected several of its
pods: the node ranks last, but is not excluded. Tenants can cause rejections, so each namespace avoids only what rejected its own.

A pod is counted when it fails while it is known to be bound. So a pod that failed before this program started, or while no
watch was alive, is not counted, and none is counted twice.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

REASONS: Final = ("UnexpectedAdmissionError", "OutOf", "TopologyAffinityError")
"""Beginnings of the `status.reason` of such pods. After `OutOf` follows the name of a resource."""
OTHER: Final = "_other"
"""Stands for all other nodes, models or namespaces where a list of them is bounded. No such object has this name."""
AVOIDED_FROM: Final = 3
"""Pods of a namespace that a node rejects before the namespace avoids it."""
AVOIDED_FOR: Final = 600.0
"""Seconds after the last of them."""
_MAX_NODES: Final = 100
"""Maximum number of nodes that are counted by name, and that one namespace avoids."""


def reason_of(reason: str) -> str | None:
    """The one of REASONS that the `status.reason` of a pod begins with; None if its node did not reject it."""
    return next((known for known in REASONS if reason.startswith(known)), None)


class Rejections:
    """Rejected pods. Times are of the clock of the events."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """By node and reason since the program started. Nodes beyond the first 100 are counted together, as OTHER."""
        self._nodes: set[str] = set()
        self._recent: dict[str, dict[str, tuple[int, float]]] = {}
        """By namespace and node: the number of pods, and the time of the last. It is forgotten after AVOIDED_FOR."""

    def failed(self, namespace: str, node: str, reason: str, now: float) -> None:
        """A bound pod has failed with this `status.reason`."""
        known = reason_of(reason)
        if known is None:
            return
        if len(self._nodes) < _MAX_NODES:
            self._nodes.add(node)
        self.counts[node if node in self._nodes else OTHER, known] += 1
        recent = self._recent.setdefault(namespace, {})
        if node in recent or len(recent) < _MAX_NODES:
            recent[node] = recent.get(node, (0, now))[0] + 1, now

    def avoided(self, namespace: str) -> Iterator[str]:
        """The nodes that a namespace avoids."""
        return (node for node, (pods, _) in self._recent.get(namespace, {}).items() if pods >= AVOIDED_FROM)

    def expire(self, now: float) -> None:
        """Forget what is over."""
        for namespace, recent in [*self._recent.items()]:
            for node in [node for node, (_, last) in recent.items() if last + AVOIDED_FOR <= now]:
                del recent[node]
            if not recent:
                del self._recent[namespace]
