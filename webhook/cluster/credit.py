"""How many promises may be open to an owner whose pods nobody has seen: whoever reaches the port can ask in any name.

A controller begins with one pod and doubles (slow start of ReplicaSet and Job), and a pod that is stored is in the watch within
milliseconds: so an honest owner has few open promises before its first pod is seen, and no more than twice its pods later. A
promise that is not held costs little: the pod's preference stands, only the next pod may be given the same node.
"""

from __future__ import annotations

from typing import Final

from webhook.cluster.pods import PodKey

FIRST: Final = 16
"""Open promises of one owner before any of its pods is seen, and of all such owners of one namespace together: pods without an
owner are each their own."""
LEAST: Final = 32
NODES: Final = 8
"""Of all namespaces together: LEAST, or one for so many nodes. What never comes takes an eighth of a large cluster at most."""
_KEPT: Final = 4096
"""Owners that are remembered; the one that was seen first makes room."""


class Credit:
    """Open promises by owner, and how many of its pods were seen."""

    def __init__(self) -> None:
        self.declined = 0
        """Promises that were not held."""
        self._open: dict[PodKey, int] = {}
        self._came: dict[PodKey, int] = {}
        self._unseen = 0
        """Open promises of owners of which no pod was seen: in all, and by namespace."""
        self._unseen_in: dict[str, int] = {}

    def allows(self, pod: PodKey, nodes: int) -> bool:
        """Whether one more promise may be held. `nodes`: how many the cluster has."""
        came = self._came.get(pod, 0)
        if came:
            allowed = self._open.get(pod, 0) < FIRST + 2 * came
        else:
            allowed = self._unseen < max(LEAST, nodes // NODES) and self._unseen_in.get(pod.namespace, 0) < FIRST
        self.declined += not allowed
        return allowed

    def opened(self, pod: PodKey) -> None:
        """A promise is held."""
        self._open[pod] = self._open.get(pod, 0) + 1
        if pod not in self._came:
            self._add_unseen(pod, 1)

    def closed(self, pod: PodKey) -> None:
        """It is held no more, or its pod was seen."""
        left = self._open[pod] - 1
        if left:
            self._open[pod] = left
        else:
            del self._open[pod]
        if pod not in self._came:
            self._add_unseen(pod, -1)

    def came(self, pod: PodKey) -> None:
        """Another pod of this owner is in the watch. Called before the promise to it is closed."""
        known = self._came.get(pod)
        if known is not None:
            self._came[pod] = known + 1
            return
        if len(self._came) >= _KEPT:
            first = next(iter(self._came))
            del self._came[first]
            self._add_unseen(first, self._open.get(first, 0))
        self._add_unseen(pod, -self._open.get(pod, 0))
        self._came[pod] = 1

    def _add_unseen(self, pod: PodKey, count: int) -> None:
        self._unseen += count
        left = self._unseen_in.get(pod.namespace, 0) + count
        if left:
            self._unseen_in[pod.namespace] = left
        else:
            self._unseen_in.pop(pod.namespace, None)
