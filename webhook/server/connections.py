"""All connections, and which one is closed when there are too many.

    accepted               a whole request came          answered as a review
    SILENT ─────────────▶ BUSY ────────────────────────▶ IDLE
      │ ▲                   │ answered as anything else   ▲ │ asks again: BUSY
      │ └───────────────────┘                             │ ▼
      └───────────────────────────────────────────────────┘
        has shown a client certificate

Half a request changes nothing. The oldest SILENT connection is closed first, then the oldest IDLE one, never a BUSY one. Of
several peers, the one with most connections in that stage loses one: no peer is cut for what another does.

An API server asks within milliseconds of its handshake and keeps at most 25 idle connections (MaxIdleConnsPerHost), so it is
not cut because of others that keep more open, not even from the same address: those that it uses are the youngest, or busy.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Stage(Enum):
    SILENT = "silent"
    """No review of it was answered yet. Its handshake may not be finished."""
    IDLE = "idle"
    BUSY = "busy"


class Connection:
    """`cut` ends it at once. `since`: when it came to its stage."""

    __slots__ = ("cut", "peer", "since", "stage")

    def __init__(self, peer: str, cut: Callable[[], object] = lambda: None) -> None:
        self.peer = peer
        self.cut = cut
        self.stage = Stage.SILENT
        self.since = 0.0


class Connections:
    """All connections, by stage and peer, those that have been there longest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_stage: dict[Stage, dict[str, dict[Connection, None]]] = {stage: {} for stage in Stage}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, connection: Connection, now: float) -> Connection | None:
        """A new one. The one that has to go for it, if any, is taken out and to be cut: itself where all others are busy."""
        gone = (self.spare() or connection) if self._count >= self._limit else None
        if gone is not connection:
            self._put(connection, Stage.SILENT, now)
            self._count += 1
        return gone

    def move(self, connection: Connection, stage: Stage, now: float) -> None:
        """It comes to a stage, or to the end of the one where it is. Nothing for one that was removed."""
        if self._take(connection):
            self._put(connection, stage, now)

    def remove(self, connection: Connection) -> None:
        """Nothing for one that was removed."""
        self._count -= self._take(connection)

    def spare(self) -> Connection | None:
        """Take out the one that is needed least; None where all are busy."""
        for stage in (Stage.SILENT, Stage.IDLE):
            if peers := self._by_stage[stage]:
                peer = max(peers, key=lambda name: len(peers[name]))
                oldest = next(iter(peers[peer]))
                self.remove(oldest)
                return oldest
        return None

    def silent_since(self, before: float) -> list[Connection]:
        """Take out all that have been silent since before then."""
        silent = [c for peer in self._by_stage[Stage.SILENT].values() for c in peer if c.since < before]
        for connection in silent:
            self.remove(connection)
        return silent

    def _put(self, connection: Connection, stage: Stage, now: float) -> None:
        connection.stage, connection.since = stage, now
        self._by_stage[stage].setdefault(connection.peer, {})[connection] = None

    def _take(self, connection: Connection) -> bool:
        peers = self._by_stage[connection.stage]
        if connection not in (peer := peers.get(connection.peer, {})):
            return False
        del peer[connection]
        if not peer:
            del peers[connection.peer]
        return True
