"""What waits: bytes that come or go slowly, and whole requests that are not decided yet. Both are bounded, and shared.

There is no fixed share for a peer, since a managed control plane calls from one address: as long as nobody else wants it, one
peer may have all. When there is too much, the peer that has most loses something. So a stranger takes nothing from an API
server that asks for less than the stranger does.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Final

MOST_BYTES: Final = 64 << 20
"""Of bodies that are still coming and answers that are not read yet, in all: ten of the largest honest reviews (6 MiB)."""
LEAST_BYTES: Final = 64 << 10
"""Each of them counts at least as much: what its buffers take."""
MOST_WORK: Final = 0.25
"""Seconds of expected work that may wait, for whole requests: 500 small ones. On a machine of half the speed, and with as much
again for TLS and for those that are sent away, the last of them is answered in 1.2 s. The API server waits 3 s for /mutate and
5 s for /validate."""
REQUEST_SECONDS: Final = 0.0005
"""What a small review takes: 0.4 ms for pods of which no two are alike, and its part of TLS and HTTP."""
BYTE_SECONDS: Final = 0.5 / (8 << 20)
"""What a byte takes: the largest body may take a second at most, and half of that if it was not made for the purpose."""
TURN_SECONDS: Final = 0.05
"""Decisions in one turn of the event loop: probes, and requests that are sent away, are answered in between."""


class Busy(Exception):
    """There is too much to do: ask again in a second. `reason` is one of `bodies`, `large`, `work`."""

    def __init__(self, reason: str) -> None:
        super().__init__("too much to do: ask again in a second")
        self.reason = reason


class Slow:
    """Bytes that are held for a peer that is slow: a body that is coming, an answer that is not read."""

    __slots__ = ("began", "bytes", "drop", "moved", "peer")

    def __init__(self, peer: str, size: int, drop: Callable[[], None], now: float) -> None:
        self.peer = peer
        self.bytes = max(size, LEAST_BYTES)
        self.drop = drop
        """Ends it."""
        self.began = now
        self.moved = 0
        """Bytes that have come, or were read."""

    def speed(self, now: float) -> float:
        """Bytes per second. One that has only just begun counts as fast."""
        return (self.moved + LEAST_BYTES) / (now - self.began + 0.001)


class Bytes:
    """Memory that slow peers hold. The slowest of the peer that holds most makes room."""

    def __init__(self, clock: Callable[[], float], most: int = MOST_BYTES) -> None:
        self.total = 0
        self._clock = clock
        self._most = most
        self._of: dict[str, dict[Slow, None]] = {}
        self._held: dict[str, int] = {}

    def begin(self, peer: str, size: int, drop: Callable[[], None]) -> Slow:
        """Hold bytes before they come."""
        slow = Slow(peer, size, drop, self._clock())
        self._of.setdefault(peer, {})[slow] = None
        self._hold(peer, slow.bytes)
        return slow

    def moved(self, slow: Slow, size: int) -> None:
        """So many more have come. More is held where that was not said before."""
        slow.moved += size
        if slow.moved > slow.bytes and slow in self._of.get(slow.peer, ()):
            more = slow.moved - slow.bytes
            slow.bytes = slow.moved
            self._hold(slow.peer, more)

    def end(self, slow: Slow) -> None:
        """Nothing is held any more."""
        peers = self._of.get(slow.peer, {})
        if slow in peers:
            del peers[slow]
            self.total -= slow.bytes
            self._held[slow.peer] -= slow.bytes
            if not peers:
                del self._of[slow.peer], self._held[slow.peer]

    def _hold(self, peer: str, size: int) -> None:
        self.total += size
        self._held[peer] = self._held.get(peer, 0) + size
        while self.total > self._most:
            now = self._clock()
            largest = max(self._held, key=self._held.__getitem__)
            slowest = min(self._of[largest], key=lambda slow: slow.speed(now))
            self.end(slowest)
            slowest.drop()


def cost(size: int) -> float:
    """Seconds that a body of this size is expected to take."""
    return REQUEST_SECONDS + size * BYTE_SECONDS


@dataclass(slots=True)
class _Waiting:
    peer: str
    cost: float
    due: float
    """Of one peer the one that is due first is next."""
    job: Callable[[], None]
    done: asyncio.Future[None]

    def __lt__(self, other: _Waiting) -> bool:
        return self.due < other.due


class _Peer:
    """The requests of one peer that wait, and the work that it has had."""

    __slots__ = ("cost", "had", "heap")

    def __init__(self, had: float) -> None:
        self.heap: list[_Waiting] = []
        self.cost = 0.0
        self.had = had


class Queue:
    """Whole requests, decided one after the other, so many in each turn of the event loop.

    Who had least work is next. Of one peer the small ones go before the large, for twice as long as the large one takes.
    """

    def __init__(self, most: float = MOST_WORK, turn: float = TURN_SECONDS) -> None:
        self.cost = 0.0
        """Seconds that everything which waits is expected to take."""
        self._most = most
        self._turn = turn
        self._spent = 0.0
        self._peers: dict[str, _Peer] = {}
        self._had = 0.0
        self._next: asyncio.Handle | None = None

    def room(self, peer: str, seconds: float) -> None:
        """Raises Busy where a request of so much work would be sent away, were it here now."""
        if self.cost and self.cost + seconds > self._most and self._loser(peer, seconds) is None:
            raise Busy("work")

    async def decide(self, peer: str, seconds: float, job: Callable[[], None]) -> None:
        """Call `job` when its time has come. Raises Busy where there is too much to do, now or when others come that had less."""
        if not self._peers and self._spent < self._turn:
            self._run(job)
            return
        self.room(peer, seconds)
        while self.cost + seconds > self._most and (loser := self._loser(peer, seconds)) is not None:
            self._peers[loser.peer].heap.remove(loser)
            heapq.heapify(self._peers[loser.peer].heap)
            self._taken(loser)
            if not loser.done.done():
                loser.done.set_exception(Busy("work"))
        loop = asyncio.get_running_loop()
        waiting = _Waiting(peer, seconds, loop.time() + 2 * seconds, job, loop.create_future())
        mine = self._peers.get(peer)
        if mine is None:
            mine = self._peers[peer] = _Peer(self._had)
        heapq.heappush(mine.heap, waiting)
        mine.cost += seconds
        self.cost += seconds
        await waiting.done

    def _loser(self, peer: str, seconds: float) -> _Waiting | None:
        """What goes for a request of `peer`: the last of the peer that would still have more, else a larger one of its own."""
        mine = self._peers.get(peer)
        most = max(self._peers.values(), key=lambda each: each.cost, default=None)
        if most is not None and most is not mine and most.cost > seconds + (mine.cost if mine else 0.0):
            return max(most.heap)
        largest = max(mine.heap, key=lambda waiting: waiting.cost) if mine else None
        return largest if largest is not None and largest.cost > seconds else None

    def _taken(self, waiting: _Waiting) -> None:
        theirs = self._peers[waiting.peer]
        theirs.cost -= waiting.cost
        self.cost -= waiting.cost
        if not theirs.heap:
            del self._peers[waiting.peer]
            if not self._peers:
                self.cost = 0.0  # what is left is rounding

    def _run(self, job: Callable[[], None]) -> float:
        """What it took. The turn that comes next begins anew."""
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._new_turn)
        started = perf_counter()
        job()
        took = perf_counter() - started
        self._spent += took
        return took

    def _new_turn(self) -> None:
        self._next, self._spent = None, 0.0
        while self._peers and self._spent < self._turn:
            theirs = min(self._peers.values(), key=lambda each: each.had)
            waiting = heapq.heappop(theirs.heap)
            self._had = theirs.had
            if not waiting.done.done():  # else nobody waits for it any more
                theirs.had += self._run(waiting.job)
                waiting.done.set_result(None)
            self._taken(waiting)
        if self._peers and self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._new_turn)
