"""Bounds the open reservations of an owner: anybody who reaches the port can ask for reservations in the name of any owner.

A controller begins with one pod and doubles (slow start of ReplicaSet and Job), and a stored pod is in the watch within
milliseconds. So an honest owner has few open reservations before its first pod is seen, and at most twice its pods
later. A declined reservation costs little: the pod keeps its preferred node, but the next pod may get the same node.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from webhook.cluster.pods import PodKey

MAX_UNSEEN: Final = 16
"""Maximum of open reservations of one owner while none of its pods was seen, and of all such owners in one namespace
together. A pod without an owner counts as its own owner."""
MIN_TOTAL: Final = 32
NODES_PER_RESERVATION: Final = 8
"""The same maximum for all namespaces together: one for so many nodes, and MIN_TOTAL at least. So pods that never come hold
at most an eighth of a large cluster."""
_MAX_OWNERS: Final = 4096
"""Maximum number of owners with seen pods that are kept; the oldest is dropped."""


class ReservationLimit:
    """Open reservations by owner, and how many of its pods were seen."""

    def __init__(self) -> None:
        self.declined = 0
        """Number of reservations that were not made."""
        self._open: Counter[PodKey] = Counter()
        self._seen: dict[PodKey, int] = {}
        self._unseen = 0
        """Open reservations of owners without seen pods."""
        self._unseen_in: Counter[str] = Counter()
        """The same by namespace."""

    def allows(self, pod: PodKey, nodes: int) -> bool:
        """Whether one more reservation may be made. `nodes`: the number of nodes of the cluster."""
        if pod in self._seen:
            allowed = self._open[pod] < MAX_UNSEEN + 2 * self._seen[pod]
        else:
            total = max(MIN_TOTAL, nodes // NODES_PER_RESERVATION)
            allowed = self._unseen < total and self._unseen_in[pod.namespace] < MAX_UNSEEN
        self.declined += not allowed
        return allowed

    def opened(self, pod: PodKey) -> None:
        """A reservation was made."""
        self._open[pod] += 1
        if pod not in self._seen:
            self._add_unseen(pod, 1)

    def closed(self, pod: PodKey) -> None:
        """A reservation ended, or its pod was seen."""
        self._open[pod] -= 1
        if not self._open[pod]:
            del self._open[pod]
        if pod not in self._seen:
            self._add_unseen(pod, -1)

    def pod_seen(self, pod: PodKey) -> None:
        """Another pod of this owner is in the watch. Called before its reservation is closed."""
        if pod in self._seen:
            self._seen[pod] += 1
            return
        if len(self._seen) >= _MAX_OWNERS:
            oldest = next(iter(self._seen))
            del self._seen[oldest]
            self._add_unseen(oldest, self._open[oldest])
        self._add_unseen(pod, -self._open[pod])
        self._seen[pod] = 1

    def _add_unseen(self, pod: PodKey, count: int) -> None:
        self._unseen += count
        self._unseen_in[pod.namespace] += count
        if not self._unseen_in[pod.namespace]:
            del self._unseen_in[pod.namespace]
