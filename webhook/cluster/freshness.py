"""Whether what is known of the cluster is complete, and recent enough to choose nodes by."""

from __future__ import annotations

from math import inf
from typing import Final

from webhook.cluster.listing import ListKind

REQUIRED: Final[tuple[ListKind, ...]] = ("nodes", "pods", "priorityclasses", "namespaces")
"""Without them no node can be chosen; the other kinds may be missing."""


class Freshness:
    """Which kinds are known, and when each was heard of. `max_age`: seconds, of the same clock as every `now`."""

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self.listed: frozenset[ListKind] = frozenset()
        """The kinds that are known: each was listed to its end, and is still served."""
        self.heard_at: dict[ListKind, float] = {}
        self._stale_at: float | None = None
        """When the oldest news will be too old; None where that is to be worked out again."""

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
        """Whether every kind of REQUIRED was listed once and heard of within `max_age`."""
        if self._stale_at is None:
            known = self.listed.issuperset(REQUIRED)
            self._stale_at = min([self.heard_at[kind] for kind in REQUIRED]) + self._max_age if known else -inf
        return now <= self._stale_at
