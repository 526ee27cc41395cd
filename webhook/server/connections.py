"""Tracks all connections and decides which one to close when there are too many.

    SILENT  no review was answered yet    a whole request arrives: BUSY; a client certificate is accepted: IDLE
    BUSY    a request is being answered   a review was answered, now or earlier: IDLE; otherwise: SILENT
    IDLE    waits for another request     a whole request arrives: BUSY

An incomplete request changes no stage. A SILENT connection is closed first, then an IDLE one, never a BUSY one. The peer with the
most connections in that stage loses its oldest one, so no peer loses a connection to the behaviour of another.

An API server sends a request within milliseconds of the handshake and keeps at most 25 idle connections (MaxIdleConnsPerHost).
Its connections are therefore busy or the youngest, and peers that keep more connections open lose theirs first, even behind the
same address.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class Stage(Enum):
    SILENT = "silent"
    """No review was answered yet. The TLS handshake may not be finished."""
    IDLE = "idle"
    BUSY = "busy"


class Connection:
    """One connection. `cut` closes it at once. `since`: when it entered its stage."""

    __slots__ = ("cut", "peer", "since", "stage")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.cut: Callable[[], object] = lambda: None
        self.stage = Stage.SILENT
        self.since = 0.0


class Connections:
    """All connections by stage and peer, the oldest in its stage first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_stage: dict[Stage, dict[str, dict[Connection, None]]] = {stage: {} for stage in Stage}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, connection: Connection, now: float) -> Connection | None:
        """Add a new connection. Returns the one that the caller must cut for it, if any: the new one if all others are busy."""
        evicted = (self.evict() or connection) if self._count >= self._limit else None
        if evicted is not connection:
            self._put(connection, Stage.SILENT, now)
            self._count += 1
        return evicted

    def move(self, connection: Connection, stage: Stage, now: float) -> None:
        """Move a connection to a stage, as its youngest. Nothing happens if the connection was removed."""
        if self._take(connection):
            self._put(connection, stage, now)

    def remove(self, connection: Connection) -> None:
        """Remove a connection. Nothing happens if it was removed before."""
        self._count -= self._take(connection)

    def evict(self) -> Connection | None:
        """Remove and return the connection to close first; None if all are busy."""
        for stage in (Stage.SILENT, Stage.IDLE):
            if peers := self._by_stage[stage]:
                peer = max(peers, key=lambda name: len(peers[name]))
                oldest = next(iter(peers[peer]))
                self.remove(oldest)
                return oldest
        return None

    def silent_since(self, before: float) -> list[Connection]:
        """Remove and return all connections that became silent before a time."""
        silent = [c for peer in self._by_stage[Stage.SILENT].values() for c in peer if c.since < before]
        for connection in silent:
            self.remove(connection)
        return silent

    def _put(self, connection: Connection, stage: Stage, now: float) -> None:
        connection.stage, connection.since = stage, now
        self._by_stage[stage].setdefault(connection.peer, {})[connection] = None

    def _take(self, connection: Connection) -> bool:
        """Remove a connection from its stage. False if it was not there."""
        peers = self._by_stage[connection.stage]
        if connection not in (peer := peers.get(connection.peer, {})):
            return False
        del peer[connection]
        if not peer:
            del peers[connection.peer]
        return True
