"""What waits: bytes that come or go slowly, and whole requests that are not decided yet. Both are bounded, and shared.

There is no fixed share for a peer, since a managed control plane calls from one address: one peer may have all while no other
wants any. When there is too much, the peer that has most loses something. So a stranger takes nothing from an API server that
asks for less than the stranger does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any, Final, TypeVar

MAX_BYTES: Final = 64 << 20
"""Of bodies that are still coming and answers that are not read yet, in all: ten of the largest honest reviews (6 MiB)."""
MIN_BYTES: Final = 64 << 10
"""Each of them counts at least as much: what its buffers take."""
STEADY: Final = 4 << 20
"""Bytes in a second. Who has sent half as many in its time is slower than who has sent as many."""
MAX_WORK: Final = 0.25
"""Seconds of expected work that may wait, for whole requests: 500 small ones. On a machine of half the speed, and with as much
again for TLS and for those that are sent away, the last of them is answered in 1.2 s. The API server waits 3 s for /mutate and
5 s for /validate."""
REQUEST_SECONDS: Final = 0.0005
"""What a small review takes: 0.4 ms for pods of which no two are alike, and its part of TLS and HTTP."""
BYTE_SECONDS: Final = 0.5 / (8 << 20)
"""What a byte takes: the largest body may take a second at most, and half of that if it was not made for the purpose."""
TURN_SECONDS: Final = 0.05
"""Decisions in one turn of the event loop: probes, and requests that are sent away, are answered in between."""
T = TypeVar("T")


class Busy(Exception):
    """There is too much to do: ask again in a second. `reason` is one of `bodies`, `large`, `work`."""

    def __init__(self, reason: str) -> None:
        super().__init__("too much to do: ask again in a second")
        self.reason = reason


class Slow:
    """Bytes that are held for a peer that is slow: a body that is coming, an answer that is not read."""

    __slots__ = ("arrived", "begun", "bytes", "drop", "peer")

    def __init__(self, peer: str, size: int, drop: Callable[[], None], begun: float) -> None:
        self.peer = peer
        self.bytes = max(size, MIN_BYTES)
        self.arrived = 0
        self.drop = drop
        """Ends it."""
        self.begun = begun

    @property
    def since(self) -> float:
        """When it would have begun, had it come at a steady pace: the slowest is the one with the earliest."""
        return self.begun + self.arrived / STEADY


class Bytes:
    """Memory that slow peers hold. Of the peer that holds most, what is slowest makes room. `clock`: seconds."""

    def __init__(self, limit: int = MAX_BYTES, clock: Callable[[], float] = monotonic) -> None:
        self.total = 0
        self._limit = limit
        self._clock = clock
        self._by_peer: dict[str, dict[Slow, None]] = {}

    def begin(self, peer: str, size: int, drop: Callable[[], None]) -> Slow:
        """Hold bytes before they come."""
        slow = Slow(peer, size, drop, self._clock())
        self._by_peer.setdefault(peer, {})[slow] = None
        self._hold(slow.bytes)
        return slow

    def arrived(self, slow: Slow, size: int) -> None:
        """So many more have come. More is held where the size was not known before."""
        slow.arrived += size
        if slow.arrived > slow.bytes and slow in self._by_peer.get(slow.peer, ()):
            extra, slow.bytes = slow.arrived - slow.bytes, slow.arrived
            self._hold(extra)

    def end(self, slow: Slow) -> None:
        """Nothing is held any more."""
        of_peer = self._by_peer.get(slow.peer, {})
        if slow in of_peer:
            del of_peer[slow]
            self.total -= slow.bytes
            if not of_peer:
                del self._by_peer[slow.peer]

    def _hold(self, size: int) -> None:
        self.total += size
        while self.total > self._limit:
            largest = max(self._by_peer.values(), key=lambda of_peer: sum(slow.bytes for slow in of_peer))
            slowest = min(largest, key=lambda slow: slow.since)
            self.end(slowest)
            slowest.drop()


def cost(size: int) -> float:
    """Seconds that a body of this size is expected to take."""
    return REQUEST_SECONDS + size * BYTE_SECONDS


class _Waiting:
    """A request that is not decided yet."""

    __slots__ = ("cost", "decide", "done")

    def __init__(self, cost: float, decide: Callable[[], Any]) -> None:
        self.cost = cost
        self.decide = decide
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class _Peer:
    """The requests of one peer that wait, what they cost, and the seconds of work that it has had."""

    __slots__ = ("cost", "requests", "served")

    def __init__(self, served: float) -> None:
        self.requests: deque[_Waiting] = deque()
        self.cost = 0.0
        self.served = served


class Queue:
    """Whole requests, decided one after the other, so many in each turn of the event loop. Who was served least is next."""

    def __init__(self, limit: float = MAX_WORK, turn: float = TURN_SECONDS) -> None:
        self.cost = 0.0
        """Seconds that everything which waits is expected to take."""
        self._limit = limit
        self._turn = turn
        self._spent = 0.0
        self._peers: dict[str, _Peer] = {}
        self._served = 0.0
        """Of the peer whose turn it was last: one that comes now has as much, and does not overtake all others for long."""
        self._next_turn: asyncio.Handle | None = None

    def check_room(self, peer: str, seconds: float) -> None:
        """Raises Busy where a request of so much work would be sent away, were it here now."""
        if self.cost and self.cost + seconds > self._limit and self._loser(peer, seconds) is None:
            raise Busy("work")

    async def decide(self, peer: str, seconds: float, decide: Callable[[], T]) -> T:
        """What `decide` returns or raises, when its time has come.

        Raises Busy where there is too much to do, now or when requests of others come that had less.
        """
        if not self._peers and self._spent < self._turn:
            return self._timed(decide)
        self.check_room(peer, seconds)
        while self.cost + seconds > self._limit and (loser := self._loser(peer, seconds)):
            name, request = loser
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

    def _loser(self, peer: str, seconds: float) -> tuple[str, _Waiting] | None:
        """What is removed for a request of `peer`: the last of the peer that would still have more, else a larger one of it."""
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
                self.cost = 0.0  # what is left is rounding

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
            if not request.done.done():  # else nobody waits for it any more
                try:
                    request.done.set_result(self._timed(request.decide))
                except Exception as error:
                    request.done.set_exception(error)
            peer.served += self._spent - spent
            self._remove(name, request)
        if self._peers and self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._new_turn)
