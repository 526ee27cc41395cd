"""Divides what is bounded among peers: connections, memory, and turns at work that takes the only thread.

No peer has a fixed part, because a managed control plane calls from a single address. It may use everything while no other needs any.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from time import monotonic
from typing import Final

MAX_BYTES: Final = 64 << 20
"""Maximum size of all bodies and large unread answers: ten of the largest legitimate reviews (6 MiB)."""
SMALL: Final = 16 << 10
"""Bytes of a body that take as long as one more small review: the largest body takes 512 times as long as the smallest."""
TURN: Final = 8.0
"""Work in one turn of the event loop, in small reviews, so that probes and refusals are answered in between. A small review takes a
millisecond of one core with its part of HTTP and TLS, and so does a handshake (`bench.loop`, `bench.load`)."""


RECENT: Final = 1.0
"""Seconds after its last use in which something is cut only if there is nothing else."""


class Busy(Exception):
    """There is too much to do: the client should ask again in a second. `reason`: `bodies` or `large`."""

    def __init__(self, reason: str) -> None:
        super().__init__("too much to do: ask again in a second")
        self.reason = reason


class Held:
    """What a peer holds of something bounded: a connection, or the bytes of a body. `cut` takes it away."""

    __slots__ = ("cut", "peer", "proven", "since", "size")

    def __init__(self, peer: str, cut: Callable[[], object] = lambda: None) -> None:
        self.peer, self.cut = peer, cut
        self.size, self.since, self.proven = 0, 0.0, False
        """`since`: when it was last of use; `proven`: it was of use before, as a connection whose request was answered."""


class Bounded:
    """At the limit one is cut: what was of no use for longest, and by so much sooner as its peer holds more.

    What was of use in the last second goes only when nothing else is left: then the peer that holds most loses one of his. So those
    that just connect do not push each other out for one that is idle, and whoever takes more and more takes it from himself.
    """

    def __init__(self, limit: int) -> None:
        self.total, self._limit = 0, limit
        self._sizes: Counter[str] = Counter()
        """All that each peer holds."""
        self._unused: dict[tuple[str, bool], dict[Held, None]] = {}
        """What may be cut, by peer and `proven`, the longest unused first."""

    def add(self, held: Held, size: int = 1) -> int:
        """Count this much more. Returns how many were cut for it: perhaps `held`, if all else is in use."""
        if not held.size:
            self.unused(held)
        held.size += size
        self._sizes[held.peer] += size
        self.total += size
        cut = 0
        while self.total > self._limit and self.cut():
            cut += 1
        return cut

    def unused(self, held: Held, *, proven: bool = False) -> None:
        """From now on it is unused."""
        self.used(held)
        held.since, held.proven = monotonic(), held.proven or proven
        self._unused.setdefault((held.peer, held.proven), {})[held] = None

    def used(self, held: Held) -> None:
        """It is in use, and is not cut."""
        group = self._unused.get((held.peer, held.proven), {})
        group.pop(held, None)
        if not group:
            self._unused.pop((held.peer, held.proven), None)

    def remove(self, held: Held) -> None:
        """It is not held any more. Nothing happens if it was removed before."""
        self.used(held)
        self.total -= held.size
        self._sizes[held.peer] -= held.size
        if not self._sizes[held.peer]:
            del self._sizes[held.peer]
        held.size = 0

    def cut(self) -> bool:
        """Cut one. False if all are in use."""
        now = monotonic()

        def order(held: Held) -> tuple[float, ...]:
            idle, holds = now - held.since, self._sizes[held.peer]
            return (1, idle * holds) if idle >= RECENT else (0, holds, held.proven, idle)

        first = max((next(iter(group)) for group in self._unused.values()), key=order, default=None)
        if first is not None:
            self.remove(first)
            first.cut()
        return first is not None


def cost(size: int) -> float:
    """The work of a review with a body of `size` bytes, in small reviews."""
    return 1 + size / SMALL


class _Line:
    """Those that wait for a turn, and the work that the line was given."""

    def __init__(self, given: float) -> None:
        self.waiting: list[tuple[float, int, float, asyncio.Future[None]]] = []
        self.given = given


class Turns:
    """Says who may work now: some in each turn of the event loop; of several lines, the one that was given least. In a line, more
    work comes later: what comes while so much is done for others goes first."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._spent, self._given = 0.0, 0.0
        """Work in this turn; what the last line was given. A new line starts with as much, so it does not stay first for long."""
        self._number = count()
        self._next: asyncio.Handle | None = None

    async def wait(self, name: str, cost: float) -> None:
        """Wait for a turn in this line. A connection waits at most once, so the number of connections bounds those that wait."""
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.call_soon(self._give)
        if not self._lines and self._spent < TURN:
            self._spent += cost
            return
        line, turn = self._lines.setdefault(name, _Line(self._given)), loop.create_future()
        heappush(line.waiting, (line.given + cost, next(self._number), cost, turn))
        await turn

    def _give(self) -> None:
        self._next, self._spent = None, 0.0
        while self._lines and self._spent < TURN:
            name, line = min(self._lines.items(), key=lambda item: item[1].given)
            *_, cost, turn = heappop(line.waiting)
            if not line.waiting:
                del self._lines[name]
            if not turn.done():  # otherwise the connection is gone
                turn.set_result(None)
                self._given, line.given = line.given, line.given + cost
                self._spent += cost
        if self._spent:
            self._next = asyncio.get_running_loop().call_soon(self._give)
