"""Background tasks: they are restarted after a crash, end together, and do not do things too often."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

from webhook.telemetry.logs import Logger, cause
from webhook.telemetry.metrics import Metrics

T = TypeVar("T")
MAX_PAUSE = 4.0
"""Maximum seconds between two attempts. Together with `api.CONNECT_SECONDS` it ensures that the cluster state is correct within
ten seconds after any outage: the last failing attempt ends, one pause follows, and the next attempt succeeds."""


class Backoff:
    """Pauses that double from `first` seconds up to `limit` (default: MAX_PAUSE). Jitter keeps replicas out of step."""

    def __init__(self, first: float = 0.5, *, limit: float | None = None) -> None:
        self._first = self._next = first
        self._limit = limit

    def reset(self) -> None:
        self._next = self._first

    def next(self) -> float:
        """The seconds of the next pause."""
        pause, self._next = self._next, min(self._next * 2, self._limit or MAX_PAUSE)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311  not a secret

    async def pause(self) -> None:
        await asyncio.sleep(self.next())


class Tasks:
    """An async context for background tasks. Its end cancels them."""

    def __init__(self, metrics: Metrics, log: Logger) -> None:
        self._metrics = metrics
        self._log = log
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` until the context ends. If it returns or raises, which is a bug, it is started again."""
        self._metrics.restarts.labels(name)  # 0 from now on: Prometheus sees a rate only after a first value
        self._tasks.append(asyncio.create_task(self._supervised(name, work), name=name))

    async def _supervised(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff()
        while True:
            try:
                await work()
            except Exception as error:
                self._log.error("task crashed", task=name, **cause(error))
            self._metrics.restarts.labels(name).inc()
            await backoff.pause()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *unused: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def together(*work: Coroutine[Any, Any, T]) -> list[T]:
    """The results of all of them, which run side by side. If one fails, the others are ended before its error is raised: else
    they would open connections of a client that is closed by then."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def every(seconds: float, work: Callable[[], None]) -> None:
    """Call `work` now, and again after each pause of `seconds`. Never returns."""
    while True:
        work()
        await asyncio.sleep(seconds)


class TokenBucket:
    """Allows `burst` events at once, and then one in `seconds`. `now`: seconds of any clock that only grows."""

    __slots__ = ("_at", "_burst", "_seconds", "_tokens")

    def __init__(self, burst: int, seconds: float, now: float) -> None:
        self._burst, self._seconds, self._tokens, self._at = burst, seconds, float(burst), now

    def tokens(self, now: float) -> float:
        """The number of tokens, which may have a fraction."""
        self._tokens, self._at = min(self._burst, self._tokens + (now - self._at) / self._seconds), now
        return self._tokens

    def take(self) -> None:
        self._tokens -= 1

    def reserve(self, now: float) -> float:
        """Take one token, even if there is none yet. Returns the seconds until there is one."""
        missing = 1 - self.tokens(now)
        self.take()
        return max(0.0, missing * self._seconds)

    def is_full(self, now: float) -> bool:
        return self.tokens(now) >= self._burst
