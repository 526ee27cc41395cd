"""Decides when the TLS handshakes of new connections begin. A handshake costs more than a review, and anybody can start one.

A connection costs almost nothing until its first byte arrives. Then it waits for its handshake. In each turn of the event loop
only a few handshakes begin, and the peers take turns. So reviews continue in between, and no peer must wait for another.

A peer without an answered review in the last TRUSTED_SECONDS may begin BURST handshakes, and then PER_SECOND. Its other
connections wait, so it gains nothing by connecting again. An API server has no limit after its first review.
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
"""Handshakes per second of a peer that has used BURST."""
TRUSTED_SECONDS: Final = 60.0
"""Time without a limit for a peer after each answered review."""
STARTS: Final = 2
"""Handshakes that begin in one turn of the event loop. One takes about a millisecond."""
MAX_PEERS: Final = 4096
"""Maximum number of peers that are tracked. A new peer replaces the one with the oldest entry, which then has BURST again."""


class Rate:
    """A token bucket per peer that limits its handshakes."""

    def __init__(self) -> None:
        self._tokens: dict[str, tuple[float, float]] = {}
        """The handshakes left to a peer, and the time of that number: in the future while the peer has no limit."""

    def answered(self, peer: str, now: float) -> None:
        """Lift the limit of a peer for TRUSTED_SECONDS, because one of its reviews was answered."""
        self._keep(peer, BURST, now + TRUSTED_SECONDS)

    def allows(self, peer: str, now: float) -> bool:
        """Whether one more handshake of this peer may begin now. If so, it is counted."""
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
    """Accepted sockets whose handshake has not begun. `begin` is called once for each that is not cancelled before."""

    def __init__(self, begin: Callable[[socket.socket, Connection], None], rate: Rate) -> None:
        self._begin = begin
        self._rate = rate
        self._silent: dict[Connection, socket.socket] = {}
        """Connections that have sent nothing yet."""
        self._waiting: dict[str, dict[Connection, socket.socket]] = {}
        """Connections that wait for their handshake, by peer; the peer whose turn is next comes first."""
        self._next_turn: asyncio.Handle | None = None

    def add(self, accepted: socket.socket, connection: Connection) -> None:
        self._silent[connection] = accepted
        asyncio.get_running_loop().add_reader(accepted, self._readable, connection)

    def cancel(self, connection: Connection) -> None:
        """Close a connection whose handshake has not begun. Nothing happens to others."""
        accepted = self._silent.pop(connection, None)
        if accepted is not None:
            asyncio.get_running_loop().remove_reader(accepted)
        else:
            accepted = self._take(connection)
        if accepted is not None:
            accepted.close()

    def pending(self) -> list[Connection]:
        """All connections whose handshake has not begun."""
        return [*self._silent, *[connection for peer in self._waiting.values() for connection in peer]]

    def _readable(self, connection: Connection) -> None:
        """The first byte has arrived, or the peer has closed the connection."""
        loop = asyncio.get_running_loop()
        accepted = self._silent.pop(connection)
        loop.remove_reader(accepted)
        self._waiting.setdefault(connection.peer, {})[connection] = accepted
        if self._next_turn is not None:
            self._next_turn.cancel()  # it may come later than this connection has to wait
        self._next_turn = loop.call_soon(self._turn)

    def _turn(self) -> None:
        loop, begun = asyncio.get_running_loop(), 0
        while begun < STARTS:
            peer = next((peer for peer in self._waiting if self._rate.allows(peer, loop.time())), None)
            if peer is None:
                break
            begun += 1
            connection, accepted = next(iter(self._waiting[peer].items()))
            self._take(connection)
            if of_peer := self._waiting.pop(peer, None):
                self._waiting[peer] = of_peer  # now the other peers come first
            self._begin(accepted, connection)
        if not self._waiting:
            self._next_turn = None
        elif begun:
            self._next_turn = loop.call_soon(self._turn)
        else:
            self._next_turn = loop.call_later(1 / PER_SECOND, self._turn)

    def _take(self, connection: Connection) -> socket.socket | None:
        of_peer = self._waiting.get(connection.peer, {})
        accepted = of_peer.pop(connection, None)
        if accepted is not None and not of_peer:
            del self._waiting[connection.peer]
        return accepted
