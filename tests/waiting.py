"""Waits for a condition that has no event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(true: Callable[[], object]) -> None:
    """Wait until `true` returns something true. Raises TimeoutError after 120 s."""
    async with asyncio.timeout(120):
        while not true():  # noqa: ASYNC110  the condition has no event
            await asyncio.sleep(0.005)
