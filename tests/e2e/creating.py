"""Pods that are created all the while something is changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.objects import pod
from tests.installed import decision


class Created:
    """What became of them: those that were refused, and those that were not changed."""

    def __init__(self) -> None:
        self.count = 0
        self.refused: list[str] = []
        self.unchanged: list[str] = []


@asynccontextmanager
async def creating(api: Api, namespace: str) -> AsyncIterator[Created]:
    """Creates GPU pods in a namespace, up to twenty a second, until twenty more have been created after the block."""
    found, go_on = Created(), True

    async def create() -> None:
        while go_on:
            name = f"p{found.count}"
            found.count += 1
            try:
                if not decision(await api.create(pod(name, 1), namespace, dryRun="All")):
                    found.unchanged.append(name)
            except ApiError as error:
                found.refused.append(str(error))
            await asyncio.sleep(0.05)  # more would take the machine from what is changed

    task = asyncio.create_task(create())
    try:
        yield found
        before = found.count

        async def more() -> bool:
            return found.count > before + 20

        await wait_until(more, 120, "more pods after the change")
    finally:
        go_on = False
        await task
