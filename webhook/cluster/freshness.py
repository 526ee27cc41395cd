"""Whether the cluster state is complete, and recent enough to choose nodes."""

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

    def complete(self, kind: ListKind, now: float) -> None:
        self.listed |= {kind}
        self.heard(kind, now)

    def withdraw(self, kind: ListKind) -> None:
        self.listed -= {kind}
        self.heard_at.pop(kind, None)

    def heard(self, kind: ListKind, now: float) -> None:
        self.heard_at[kind] = now

    def fresh(self, now: float) -> bool:
        """Whether every kind in REQUIRED is listed, and its watch was alive within the last `max_age` seconds."""
        known = self.listed.issuperset(REQUIRED)
        return known and now <= min([self.heard_at[kind] for kind in REQUIRED]) + self._max_age
