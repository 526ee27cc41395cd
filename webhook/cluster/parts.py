"""Divides the nodes among namespaces whose reservations nobody can confirm yet.

A reservation is made before the API server stores the pod. A quota or another webhook may refuse the pod, and anybody who
reaches the port can send a review of a pod that does not exist. So until a pod is in the watch, its reservation takes room
from pods of other namespaces on few nodes only, the part of its namespace. Any other reservation is private: it counts
for pods of its own namespace alone. A burst thus sees all of its own reservations, however late the watch is.
"""

from collections.abc import Mapping
from typing import Final

from webhook.cluster.grouped import add_amount

_PART: Final = 8
"""One in so many of the nodes that offer what the pod asks for is the part of a namespace; at least one node."""
_TRUSTED_PART: Final = 4
"""The same where only API servers can send reviews."""
_ALL: Final = 2
"""One in so many nodes are the parts of all namespaces together; at least one node."""
_MAX_PRIVATE: Final = 128
"""Maximum number of nodes with private reservations of one namespace: a review updates all of these."""
_MAX_OPEN: Final = 1024
"""Maximum number of open reservations of one namespace."""
_NONE: Final[Mapping[str, int]] = {}


class Parts:
    """Open reservations by namespace and node. `trusted`: whether only API servers can send reviews, so that each
    reservation is of a pod that somebody tried to create."""

    def __init__(self, *, trusted: bool = False) -> None:
        self.declined = 0
        """Number of reservations that were not made."""
        self._part = _TRUSTED_PART if trusted else _PART
        self._shared: dict[str, dict[str, int]] = {}
        """Reservations that count for all, by namespace and node."""
        self._private: dict[str, dict[str, int]] = {}
        """Those that are private to the namespace."""
        self._all = 0
        """Number of nodes in all values of `_shared`."""

    def allows(self, namespace: str, node: str, nodes: int) -> bool:
        """Whether one more reservation may be made. `nodes`: the number of those that offer what the pod asks for."""
        shared = self._shared.get(namespace, _NONE)
        private = self._private.get(namespace, _NONE)
        allowed = sum(shared.values()) + sum(private.values()) < _MAX_OPEN and (
            node in private or len(private) < _MAX_PRIVATE or self._is_shared(namespace, node, nodes)
        )
        self.declined += not allowed
        return allowed

    def opened(self, namespace: str, node: str, nodes: int) -> bool:
        """A reservation is made. Returns whether it is private."""
        private = not self._is_shared(namespace, node, nodes)
        self._all += not private and node not in self._shared.get(namespace, _NONE)
        add_amount(self._private if private else self._shared, namespace, node, 1)
        return private

    def closed(self, namespace: str, node: str, *, private: bool) -> None:
        """A reservation ended, or its pod is in the watch. `private`: what `opened` returned."""
        add_amount(self._private if private else self._shared, namespace, node, -1)
        self._all -= not private and node not in self._shared.get(namespace, _NONE)

    def _is_shared(self, namespace: str, node: str, nodes: int) -> bool:
        shared = self._shared.get(namespace, _NONE)
        return node in shared or (len(shared) < max(1, nodes // self._part) and self._all < max(1, nodes // _ALL))
