"""Bounds the memory of slow transfers and the number of waiting requests, and shares both among the peers.

A peer has no fixed share, because a managed control plane calls from a single address. One peer may use everything while no other
needs any. When a bound is reached, the peer that uses most loses something. So a stranger takes nothing from an API server that
uses less.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any, Final, TypeVar

MAX_BYTES: Final = 64 << 20
"""Maximum size of all incomplete bodies and unread answers: ten of the largest legitimate reviews (6 MiB)."""
MIN_BYTES: Final = 64 << 10
"""Each transfer counts as at least this many bytes, which its buffers take."""
STEADY: Final = 4 << 20
"""Bytes per second of a healthy transfer. The transfer that is furthest behind this rate is the slowest."""
MAX_WORK: Final = 0.25
"""Maximum expected work of all waiting requests, in seconds: 500 small ones. On a machine half as fast, with the same time
again for TLS and refusals, the last one is answered after 1.2 s. The API server waits 3 s (mutate) or 5 s (validate)."""
REQUEST_SECONDS: Final = 0.0005
"""Expected work of a small review: 0.4 ms if no two pods are alike, plus its part of TLS and HTTP."""
BYTE_SECONDS: Final = 0.5 / (8 << 20)
"""Expected work per byte. The largest body takes at most a second, and half of that unless it was made to be slow."""
TURN_SECONDS: Final = 0.05
"""Maximum time for decisions in one turn of the event loop. Probes and refusals are answered in between."""
T = TypeVar("T")


class Busy(Exception):
    """There is too much to do: the client should ask again in a second. `reason`: `bodies`, `large` or `work`."""

    def __init__(self, reason: str) -> None:
        super().__init__("too much to do: ask again in a second")
        self.reason = reason


class Transfer:
    """Memory held for an incomplete body or an unread answer. `drop` aborts it."""

    __slots__ = ("begun", "bytes", "done", "drop", "peer")

    def __init__(self, peer: str, size: int, drop: Callable[[], None], begun: float) -> None:
        self.peer = peer
        self.bytes = max(size, MIN_BYTES)
        self.done = 0
        """Bytes received or sent so far."""
        self.drop = drop
        self.begun = begun

    @property
    def since(self) -> float:
        """The time at which a transfer at rate STEADY would have begun. It is earliest for the slowest transfer."""
        return self.begun + self.done / STEADY


class Transfers:
    """Bounds the memory of all transfers: the slowest transfer of the peer that holds most is dropped. `clock`: seconds."""

    def __init__(self, limit: int = MAX_BYTES, clock: Callable[[], float] = monotonic) -> None:
        self.total = 0
        self._limit = limit
        self._clock = clock
        self._by_peer: dict[str, dict[Transfer, None]] = {}

    def begin(self, peer: str, size: int, drop: Callable[[], None]) -> Transfer:
        """Hold memory for a transfer before its bytes arrive. `size`: 0 if unknown."""
        transfer = Transfer(peer, size, drop, self._clock())
        self._by_peer.setdefault(peer, {})[transfer] = None
        self._hold(transfer.bytes)
        return transfer

    def progress(self, transfer: Transfer, size: int) -> None:
        """`size` more bytes were received or sent. A transfer of unknown size may now hold more memory."""
        transfer.done += size
        if transfer.done > transfer.bytes and transfer in self._by_peer.get(transfer.peer, ()):
            extra, transfer.bytes = transfer.done - transfer.bytes, transfer.done
            self._hold(extra)

    def end(self, transfer: Transfer) -> None:
        """Release the memory of a transfer. Nothing happens if it was released before."""
        of_peer = self._by_peer.get(transfer.peer, {})
        if transfer in of_peer:
            del of_peer[transfer]
            self.total -= transfer.bytes
            if not of_peer:
                del self._by_peer[transfer.peer]

    def _hold(self, size: int) -> None:
        self.total += size
        while self.total > self._limit:
            largest = max(self._by_peer.values(), key=lambda of_peer: sum(transfer.bytes for transfer in of_peer))
            slowest = min(largest, key=lambda transfer: transfer.since)
            self.end(slowest)
            slowest.drop()


def cost(size: int) -> float:
    """Expected work of a review with a body of `size` bytes, in seconds."""
    return REQUEST_SECONDS + size * BYTE_SECONDS


class _Waiting:
    """A waiting request."""

    __slots__ = ("cost", "decide", "done")

    def __init__(self, cost: float, decide: Callable[[], Any]) -> None:
        self.cost = cost
        self.decide = decide
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class _Peer:
    """The waiting requests of one peer, their cost, and the work already done for the peer, in seconds."""

    __slots__ = ("cost", "requests", "served")

    def __init__(self, served: float) -> None:
        self.requests: deque[_Waiting] = deque()
        self.cost = 0.0
        self.served = served


class Queue:
    """Decides whole requests one after another, some in each turn of the event loop. The peer that was served least is next."""

    def __init__(self, limit: float = MAX_WORK, turn: float = TURN_SECONDS) -> None:
        self.cost = 0.0
        """Expected work of all waiting requests, in seconds."""
        self._limit = limit
        self._turn = turn
        self._spent = 0.0
        self._peers: dict[str, _Peer] = {}
        self._served = 0.0
        """Work done for the peer that was served last. A new peer starts with as much, so it does not stay first for long."""
        self._next_turn: asyncio.Handle | None = None

    def check_room(self, peer: str, seconds: float) -> None:
        """Raises Busy if a request of this peer with this expected work would be refused now."""
        if self.cost and self.cost + seconds > self._limit and self._to_remove(peer, seconds) is None:
            raise Busy("work")

    async def decide(self, peer: str, seconds: float, decide: Callable[[], T]) -> T:
        """The result of `decide`, called in its turn. `seconds`: its expected work.

        Raises Busy if there is no room now, or if requests of peers with less waiting work need the room later.
        """
        if not self._peers and self._spent < self._turn:
            return self._timed(decide)
        self.check_room(peer, seconds)
        while self.cost + seconds > self._limit and (removed := self._to_remove(peer, seconds)):
            name, request = removed
            self._remove(name, request)
            if not request.done.done():
                request.done.set_exception(Busy("work"))
        request = _Waiting(seconds, decide)
        mine = self._peers.setdefault(peer, _Peer(self._served))
        mine.requests.append(request)
        mine.cost += seconds
        self.cost += seconds
        result: T = await request.done
        return result

    def _to_remove(self, peer: str, seconds: float) -> tuple[str, _Waiting] | None:
        """The waiting request that makes room for a new one of `peer`, and the name of its peer; None if there is none.

        It is the last request of another peer that has more waiting work, or else a larger request of the same peer.
        """
        mine = self._peers.get(peer)
        name = max(self._peers, key=lambda other: self._peers[other].cost, default=peer)
        if name != peer and self._peers[name].cost > seconds + (mine.cost if mine else 0.0):
            return name, self._peers[name].requests[-1]
        largest = max(mine.requests, key=lambda request: request.cost) if mine else None
        return (peer, largest) if largest is not None and largest.cost > seconds else None

    def _remove(self, name: str, request: _Waiting) -> None:
        peer = self._peers[name]
        peer.requests.remove(request)
        peer.cost -= request.cost
        self.cost -= request.cost
        if not peer.requests:
            del self._peers[name]
            if not self._peers:
                self.cost = 0.0  # removes rounding errors

    def _timed(self, decide: Callable[[], T]) -> T:
        if self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._new_turn)
        started = perf_counter()
        try:
            return decide()
        finally:
            self._spent += perf_counter() - started

    def _new_turn(self) -> None:
        self._next_turn, self._spent = None, 0.0
        while self._peers and self._spent < self._turn:
            name, peer = min(self._peers.items(), key=lambda item: item[1].served)
            request, spent = peer.requests[0], self._spent
            self._served = peer.served
            if not request.done.done():  # otherwise the client has gone
                try:
                    request.done.set_result(self._timed(request.decide))
                except Exception as error:
                    request.done.set_exception(error)
            peer.served += self._spent - spent
            self._remove(name, request)
        if self._peers and self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._new_turn)
