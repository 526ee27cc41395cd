"""Pods that are created all the while something is changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.controlplane.api import Api, ApiError
from tests.controlplane.objects import pod
from tests.installed import decision


class Created:
    """What became of them: those that were refused, and those that were not changed."""

    def __init__(self) -> None:
        self.count = 0
        self.refused: list[str] = []
        self.unchanged: list[str] = []

    async def more(self, number: int) -> None:
        """Until so many more were tried."""
        until = self.count + number
        async with asyncio.timeout(600):
            while self.count < until:  # noqa: ASYNC110  it has no event
                await asyncio.sleep(0.05)


@asynccontextmanager
async def creating(api: Api, namespace: str, clients: int = 1) -> AsyncIterator[Created]:
    """Each client creates GPU pods as dry runs, at most ten a second: more would take the machine from what is changed. They
    go on until twenty more have been created after the block."""
    found, go_on = Created(), True

    async def create() -> None:
        while go_on:
            found.count += 1
            name = f"p{found.count}"
            try:
                if not decision(await api.create(pod(name, 1), namespace, dryRun="All")):
                    found.unchanged.append(name)
            except ApiError as error:
                found.refused.append(str(error))
            await asyncio.sleep(0.1)

    tasks = [asyncio.create_task(create()) for _ in range(clients)]
    try:
        yield found
        await found.more(20)
    finally:
        go_on = False
        await asyncio.gather(*tasks)
