"""Divides connections, memory and work among peers (client addresses). No peer has a fixed share: the API servers of some
control planes all have one address."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Container, Iterable
from time import monotonic
from typing import Final

MAX_BYTES: Final = 64 << 20
"""Maximum size of all bodies: ten of the largest legitimate reviews (6 MiB)."""
MAX_UNREAD: Final = 64 << 10
"""Bytes that a connection may hold in each buffer: in the parser, and of unread answers. All buffers of one kind hold 64 MiB, of
1 GiB in the container. The largest answer (`bounds.MAX_PATCH_BYTES`) is not much larger."""
TURN: Final = 8.0
"""Work in one turn of the event loop, in small reviews or handshakes; probes and refusals are answered in between."""
SMALL_SECONDS: Final = 0.0013
"""CPU time of a small review, measured with 1,000 nodes: the unit of work."""


class Held:
    """What a peer holds: a connection, or the bytes of a body. `cut` takes it away."""

    def __init__(self, peer: str, cut: Callable[[], object] = lambda: None) -> None:
        self.peer, self.cut = peer, cut
        self.size, self.since = 0, 0.0


class Bounded:
    """What peers hold together, up to a limit. When full, it cuts the entry with the largest idle time × total held by its
    peer. So a peer that takes more and more loses its own."""

    def __init__(self, limit: int) -> None:
        self.total, self._limit = 0, limit
        self._sizes: Counter[str] = Counter()
        self._unused: dict[str, dict[Held, None]] = {}

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

    def unused(self, held: Held) -> None:
        """It is unused from now on."""
        self.used(held)
        held.since = monotonic()
        self._unused.setdefault(held.peer, {})[held] = None

    def used(self, held: Held) -> None:
        """It is in use, and is not cut."""
        of_peer = self._unused.get(held.peer, {})
        of_peer.pop(held, None)
        if not of_peer:
            self._unused.pop(held.peer, None)

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
        if not self._unused:
            return False
        now, longest = monotonic(), [next(iter(of_peer)) for of_peer in self._unused.values()]
        first = max(longest, key=lambda held: (now - held.since) * self._sizes[held.peer])
        self.remove(first)
        first.cut()
        return True


class _Order:
    """Whose turn is next of those that wait: whose work was least. Who is new begins behind those that got as much as the last
    one: neither is he first for long, nor do ever new ones keep others waiting."""

    def __init__(self) -> None:
        self.done: dict[str, float] = {}
        self._last = 0.0

    def begins(self, name: str) -> None:
        self.done[name] = max(self._last + 1, self.done.get(name, 0.0))

    def next(self, waiting: Iterable[str]) -> str:
        name = min(waiting, key=self.done.__getitem__)
        self._last = self.done[name]
        return name

    def spent(self, name: str, work: float) -> None:
        self.done[name] = max(self._last, self.done.get(name, 0.0)) + work

    def forget(self, waiting: Container[str]) -> None:
        self.done = {name: done for name, done in self.done.items() if name in waiting or done > self._last}


class Turns:
    """Decides whose work is done next. In each turn of the event loop some work is done, first for the line for which least
    was done so far. A peer has a line for handshakes, and for each webhook one for small and one for large reviews, so that
    none delays the others. Of pods that are created at once, the first are validated while the last still wait to be
    mutated. Within a line namespaces take turns in the same way: however long the reviews of one take, another waits for
    one of them at most."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, deque[tuple[float, asyncio.Future[None]]]]] = {}
        """The costs of what waits, by line and namespace, first come first."""
        self._lines, self._parts = _Order(), defaultdict[str, _Order](_Order)
        """The work of each line; by line, that of each namespace."""
        self._beyond = 0.0
        """Work that was more than expected. For some turns of the event loop there is less or none: what came meanwhile is read,
        and then waits too."""
        self._next: asyncio.Handle | None = None

    async def wait(self, line: str, cost: float, namespace: str = "") -> None:
        """Wait in this line. While nobody waits, the first in a turn of the event loop goes on at once. A connection waits at
        most once, so the number of connections bounds those that wait."""
        loop, parts = asyncio.get_running_loop(), self._waiting.get(line, {})
        if not parts:
            self._lines.begins(line)
        if namespace not in parts:
            self._parts[line].begins(namespace)
        if self._next is None:
            self._next = loop.call_soon(self._give)
            self._took(self._lines.next([line]), self._parts[line].next([namespace]), cost)
            return
        turn = loop.create_future()
        self._waiting.setdefault(line, {}).setdefault(namespace, deque()).append((cost, turn))
        await turn

    def spent(self, line: str, seconds: float, cost: float, namespace: str = "") -> None:
        """Work for a line took this much CPU time. What is beyond the expected `cost` counts too: it cannot be seen from outside
        how long a body takes."""
        if (more := seconds / SMALL_SECONDS - cost) > 0:
            self._beyond += more
            self._took(line, namespace, more)

    def _took(self, line: str, namespace: str, work: float) -> None:
        self._lines.spent(line, work)
        self._parts[line].spent(namespace, work)

    def _give(self) -> None:
        given, self._next = self._beyond, None
        self._beyond = max(0.0, self._beyond - TURN / 4)
        while self._waiting and given < TURN:
            line = self._lines.next(self._waiting)
            parts = self._waiting[line]
            namespace = self._parts[line].next(parts)
            cost, turn = parts[namespace].popleft()
            if not parts[namespace]:
                del parts[namespace]
            if not parts:
                del self._waiting[line]
            if not turn.done():  # otherwise the connection is gone
                turn.set_result(None)
                given += cost
                self._took(line, namespace, cost)
        if self._waiting:
            self._next = asyncio.get_running_loop().call_soon(self._give)
        self._lines.forget(self._waiting)
        for line in [*self._parts]:
            self._parts[line].forget(self._waiting.get(line, ()))
            if line not in self._lines.done:
                del self._parts[line]
