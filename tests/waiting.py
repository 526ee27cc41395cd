"""Waits for a condition that has no event."""

import asyncio
from collections.abc import Callable


async def until(true: Callable[[], object]) -> None:
    """Wait until `true` returns something true. Raises TimeoutError after ten minutes: a busy machine takes its time."""
    async with asyncio.timeout(600):
        while not true():  # noqa: ASYNC110  the condition has no event
            await asyncio.sleep(0.005)


def time_passes(seconds: float) -> None:
    """Every deadline of the event loop is so much nearer."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


async def stop_accepting(server: asyncio.Server) -> None:
    """Close a server. Its protocols then know every connection that was accepted.

    Accepting takes asyncio three turns. A connection whose server is closed in between is never closed itself, and its
    ResourceWarning makes the tests red.
    """
    for listening in server.sockets:
        asyncio.get_running_loop().remove_reader(listening.fileno())
    for _ in range(4):
        await asyncio.sleep(0)
    server.close()
