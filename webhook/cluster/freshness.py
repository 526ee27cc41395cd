"""Whether the cluster state is complete, and recent enough to choose nodes."""

from __future__ import annotations

from math import inf
from typing import Final

from webhook.cluster.listing import ListKind

REQUIRED: Final[tuple[ListKind, ...]] = ("nodes", "pods", "priorityclasses", "namespaces")
"""No node is chosen before these are listed. The other kinds are optional."""


class Freshness:
    """Which kinds are listed, and when the watch of each was last alive. `max_age`: seconds, of the same clock as every
    `now`."""

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self.listed: frozenset[ListKind] = frozenset()
        """The kinds whose list is complete and that are still served."""
        self.heard_at: dict[ListKind, float] = {}
        self._stale_at: float | None = None
        """When the state becomes stale; None if that must be computed again."""

    def complete(self, kind: ListKind, now: float) -> None:
        self.listed |= {kind}
        self.heard(kind, now)

    def withdraw(self, kind: ListKind) -> None:
        self.listed -= {kind}
        self.heard_at.pop(kind, None)
        self._stale_at = None

    def heard(self, kind: ListKind, now: float) -> None:
        self.heard_at[kind] = now
        self._stale_at = None

    def fresh(self, now: float) -> bool:
        """Whether every kind in REQUIRED is listed, and its watch was alive within the last `max_age` seconds."""
        if self._stale_at is None:
            known = self.listed.issuperset(REQUIRED)
            self._stale_at = min(self.heard_at[kind] for kind in REQUIRED) + self._max_age if known else -inf
        return now <= self._stale_at
