"""Which connections may begin, and when: a TLS handshake costs more than a review, and everybody may ask for one.

A connection costs next to nothing until its first byte has come. Then it waits for its turn: a few handshakes begin in a turn of
the event loop, one of each peer in turn, so that reviews go on in between and no peer waits for all connections of another.

A peer from which no review came lately has BURST handshakes and then a slow rate of them; other connections of it wait, so that
a peer gains nothing by connecting again at once. An API server has no such limit after its first review.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from webhook.server.connections import Connection

BURST: Final = 1024
"""Handshakes of a peer before its first review is answered: as many as there may be connections. An API server that finds a new
replica may have hundreds of calls waiting."""
PER_SECOND: Final = 16.0
"""Of a peer of which no review was answered in the last GOOD_SECONDS."""
GOOD_SECONDS: Final = 60.0
STARTS: Final = 2
"""Handshakes that begin in one turn of the loop. One takes about a millisecond."""
MAX_PEERS: Final = 4096
"""That are remembered; the one that was not heard of for longest makes room, and has all of BURST again."""


class Rate:
    """How many handshakes a peer may have: a token bucket for each, which is not touched while its reviews are answered."""

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[float, float]] = {}
        """Handshakes that are left, and as of when: in the future where a review was answered. BURST for other peers."""

    def answered(self, peer: str, now: float) -> None:
        """A review of this peer was answered."""
        self._keep(peer, BURST, now + GOOD_SECONDS)

    def allows(self, peer: str, now: float) -> bool:
        """Whether one more handshake of this peer may begin now. It counts as begun."""
        tokens, since = self._tokens.get(peer, (float(BURST), now))
        if since > now:
            return True
        tokens = min(BURST, tokens + (now - since) * PER_SECOND)
        self._keep(peer, tokens - (tokens >= 1), now)
        return tokens >= 1

    def _keep(self, peer: str, tokens: float, since: float) -> None:
        self._tokens.pop(peer, None)
        if len(self._tokens) >= MAX_PEERS:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[peer] = (tokens, since)


class Handshakes:
    """Sockets that were accepted, until they begin: `begin` is called once for each, unless it ends before."""

    def __init__(self, begin: Callable[[socket.socket, Connection], None], rate: Rate) -> None:
        self._begin = begin
        self._rate = rate
        self._quiet: dict[Connection, socket.socket] = {}
        self._waiting: dict[str, dict[Connection, socket.socket]] = {}
        self._turn: asyncio.Handle | None = None

    def add(self, accepted: socket.socket, connection: Connection) -> None:
        self._quiet[connection] = accepted
        asyncio.get_running_loop().add_reader(accepted, self._came, connection)

    def end(self, connection: Connection) -> None:
        """It does not begin any more. Nothing for one that has begun."""
        accepted = self._quiet.pop(connection, None)
        if accepted is not None:
            asyncio.get_running_loop().remove_reader(accepted)
        else:
            accepted = self._take(connection)
        if accepted is not None:
            accepted.close()

    def waiting(self) -> list[Connection]:
        """All that have not begun."""
        return [*self._quiet, *[connection for peer in self._waiting.values() for connection in peer]]

    def _came(self, connection: Connection) -> None:
        """The first byte, or the end."""
        loop = asyncio.get_running_loop()
        accepted = self._quiet.pop(connection)
        loop.remove_reader(accepted)
        self._waiting.setdefault(connection.peer, {})[connection] = accepted
        if self._turn is not None:
            self._turn.cancel()  # it may be later than this connection has to wait
        self._turn = loop.call_soon(self._next)

    def _next(self) -> None:
        loop, begun = asyncio.get_running_loop(), 0
        while begun < STARTS:
            peer = next((peer for peer in self._waiting if self._rate.allows(peer, loop.time())), None)
            if peer is None:
                break
            begun += 1
            connection, accepted = next(iter(self._waiting[peer].items()))
            self._take(connection)
            if of_peer := self._waiting.pop(peer, None):
                self._waiting[peer] = of_peer  # the others come first
            self._begin(accepted, connection)
        if not self._waiting:
            self._turn = None
        elif begun:
            self._turn = loop.call_soon(self._next)
        else:
            self._turn = loop.call_later(1 / PER_SECOND, self._next)

    def _take(self, connection: Connection) -> socket.socket | None:
        of_peer = self._waiting.get(connection.peer, {})
        accepted = of_peer.pop(connection, None)
        if accepted is not None and not of_peer:
            del self._waiting[connection.peer]
        return accepted
