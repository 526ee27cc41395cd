"""How many reservations an owner may have open. Anybody who reaches the port can ask in the name of any owner.

A controller begins with one pod and doubles (slow start of ReplicaSet and Job), and a stored pod is in the watch within
milliseconds. So an honest owner has few open reservations before its first pod is seen, and at most twice its pods later.
A declined reservation costs little: the pod keeps its preferred node, but the next pod may be given the same node.
"""

from __future__ import annotations

from typing import Final

from webhook.cluster.pods import PodKey

FIRST: Final = 16
"""Open reservations of one owner before any of its pods is seen, and of all such owners of one namespace together. A pod
without an owner counts as its own owner."""
LEAST: Final = 32
NODES: Final = 8
"""Of all namespaces together: LEAST, or one for so many nodes. So pods that never come take at most an eighth of a cluster."""
_MAX_OWNERS: Final = 4096
"""Owners that are kept; the one that was seen first makes room."""


class ReservationLimit:
    """Open reservations by owner, and how many of its pods were seen."""

    def __init__(self) -> None:
        self.declined = 0
        """Reservations that were not made."""
        self._open: dict[PodKey, int] = {}
        self._came: dict[PodKey, int] = {}
        self._unseen = 0
        """Open reservations of owners of which no pod was seen: in all, and by namespace."""
        self._unseen_in: dict[str, int] = {}

    def allows(self, pod: PodKey, nodes: int) -> bool:
        """Whether one more reservation may be made. `nodes`: how many the cluster has."""
        came = self._came.get(pod, 0)
        if came:
            allowed = self._open.get(pod, 0) < FIRST + 2 * came
        else:
            allowed = self._unseen < max(LEAST, nodes // NODES) and self._unseen_in.get(pod.namespace, 0) < FIRST
        self.declined += not allowed
        return allowed

    def opened(self, pod: PodKey) -> None:
        """A reservation was made."""
        self._open[pod] = self._open.get(pod, 0) + 1
        if pod not in self._came:
            self._add_unseen(pod, 1)

    def closed(self, pod: PodKey) -> None:
        """A reservation ended, or its pod was seen."""
        left = self._open[pod] - 1
        if left:
            self._open[pod] = left
        else:
            del self._open[pod]
        if pod not in self._came:
            self._add_unseen(pod, -1)

    def came(self, pod: PodKey) -> None:
        """Another pod of this owner is in the watch. Called before its reservation is closed."""
        known = self._came.get(pod)
        if known is not None:
            self._came[pod] = known + 1
            return
        if len(self._came) >= _MAX_OWNERS:
            first = next(iter(self._came))
            del self._came[first]
            self._add_unseen(first, self._open.get(first, 0))
        self._add_unseen(pod, -self._open.get(pod, 0))
        self._came[pod] = 1

    def _add_unseen(self, pod: PodKey, count: int) -> None:
        if not count:
            return
        self._unseen += count
        left = self._unseen_in.get(pod.namespace, 0) + count
        if left:
            self._unseen_in[pod.namespace] = left
        else:
            self._unseen_in.pop(pod.namespace, None)
