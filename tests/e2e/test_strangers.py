"""While a stranger attacks the port, pods are created through the real API server, and no creation fails.

Many at once, so that the API server needs new connections; and large ones, whose reviews come in several pieces.

How much longer they take is measured by `bench.strangers`, for all attacks. Those that differ only in what a connection does
not say are in tests/server.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import pod
from tests.e2e.heard import Heard
from tests.installed import Installed, decision
from tests.manifests.files import HOOKS
from tests.strangers import attacked

pytestmark = pytest.mark.controlplane

API_SERVER = "127.0.0.1"
"""From where it calls. Other addresses are easier to tell apart, and are in tests/server and in `bench.strangers`."""
SMALL: dict[str, Any] = {}
LARGE: dict[str, Any] = {"args": ["x" * 500_000]}
ATTACKS = {
    "64 bodies of 8 MB, but for their end": (SMALL, LARGE),
    "six senders of 75,000 containers": (SMALL, LARGE),
    # They wait in a line of their own: it is that of all bodies above 16 KiB.
    "200 connections with policies that take 90 times as long as a pod": (SMALL,),
}
"""And the containers of the pods that are created meanwhile."""


@pytest.fixture
async def closed(installed: Installed, api: Api) -> AsyncIterator[None]:
    """The mutating hook fails closed, so that the API server says why it was skipped."""
    policy: dict[str, Any] = {"op": "replace", "path": "/webhooks/0/failurePolicy"}
    async with Heard(api) as heard:
        await api.patch(HOOKS[0], "gpu-admission", [policy | {"value": "Fail"}])
        try:
            await heard.all()
            yield
        finally:
            await api.patch(HOOKS[0], "gpu-admission", [policy | {"value": "Ignore"}])


async def created(api: Api, made: dict[str, Any], team: str) -> None:
    """What takes longer than the 30 s of the API server is tried again: how fast the machine is, is not looked at."""

    async def attempt() -> dict[str, Any] | None:
        try:
            return await api.create(made, team)
        except ApiError as error:
            if "context deadline exceeded" in error.message or "Client.Timeout" in error.message:
                return None
            raise

    stored = await wait_until(attempt, 600, f"pod {made['metadata']['name']}")
    assert decision(stored or {}), "the mutating hook was skipped"


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("attack", ATTACKS)
async def test_pods_are_created_meanwhile(
    installed: Installed, api: Api, team: str, nodes: MakeNodes, attack: str
) -> None:
    await nodes("two-node")
    async with attacked(installed.ports[0], attack, API_SERVER):
        for size, container in enumerate(ATTACKS[attack]):
            pods = [pod(f"p-{size}-{number}", container=container) for number in range(10 if container else 30)]
            await asyncio.gather(*[created(api, each, team) for each in pods])
    assert installed.metrics()["process_resident_memory_bytes"] < 700 << 20


@pytest.mark.usefixtures("closed")
async def test_of_160_pods_80_at_a_time_none_fails_while_a_stranger_holds_all_connections(
    installed: Installed, api: Api, team: str, nodes: MakeNodes
) -> None:
    await nodes("two-node")
    working = asyncio.Semaphore(80)

    async def create(number: int) -> None:
        async with working:
            await created(api, pod(f"p-{number}"), team)

    async with attacked(installed.ports[0], "1,024 connections with one review each", API_SERVER):
        await asyncio.gather(*(create(number) for number in range(160)))
