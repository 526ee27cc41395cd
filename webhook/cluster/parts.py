"""Divides the nodes among namespaces whose reservations nobody can confirm yet.

A reservation is made before the API server stores the pod. A quota or another webhook may refuse the pod, and anybody who
reaches the port can send a review of a pod that does not exist. So until a pod is in the watch, its reservation takes room
from pods of other namespaces on few nodes only, the part of its namespace. Any other reservation is private: it counts
for pods of its own namespace alone. A burst thus sees all of its own reservations, however late the watch is.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

MAX_OPEN: Final = 1024
"""Maximum number of open reservations of one namespace."""
_PART: Final = 8
"""One in so many nodes is the part of a namespace; at least one node."""
_TRUSTED_PART: Final = 4
"""The same where only API servers can send reviews."""
_ALL: Final = 2
"""One in so many nodes are the parts of all namespaces together; at least one node."""


class Parts:
    """Open reservations by namespace, and the nodes on which they count for others. `trusted`: whether only API servers can
    send reviews, so that each reservation is of a pod that somebody tried to create."""

    def __init__(self, *, trusted: bool = False) -> None:
        self.declined = 0
        """Number of reservations that were not made."""
        self._part = _TRUSTED_PART if trusted else _PART
        self._open: Counter[str] = Counter()
        self._nodes: dict[str, Counter[str]] = {}
        """By namespace, the nodes on which its reservations count for others, with their number."""
        self._all = 0
        """Number of nodes in all values of `_nodes`."""

    def allows(self, namespace: str) -> bool:
        """Whether one more reservation may be made."""
        allowed = self._open[namespace] < MAX_OPEN
        self.declined += not allowed
        return allowed

    def opened(self, namespace: str, node: str, nodes: int) -> bool:
        """A reservation is made. Returns whether it is private. `nodes`: the number of nodes."""
        self._open[namespace] += 1
        part = self._nodes.setdefault(namespace, Counter())
        if node not in part and (len(part) >= max(1, nodes // self._part) or self._all >= max(1, nodes // _ALL)):
            return True
        self._all += node not in part
        part[node] += 1
        return False

    def closed(self, namespace: str, node: str, *, private: bool) -> None:
        """A reservation ended, or its pod is in the watch. `private`: what `opened` returned."""
        part = self._nodes[namespace]
        if not private:
            part[node] -= 1
            if not part[node]:
                del part[node]
                self._all -= 1
        self._open[namespace] -= 1
        if not self._open[namespace]:
            del self._open[namespace], self._nodes[namespace]
