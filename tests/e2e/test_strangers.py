"""While a stranger attacks the port, pods are created through the real API server, and no creation fails.

Many at once, so that the API server needs new connections; and large ones, whose reviews come in several pieces.

How much longer they take is measured by `bench.strangers`, for all attacks. Those that differ only in what a connection does
not say are in tests/server.
"""

import asyncio

import pytest

from tests.controlplane.api import Api, refusal
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import pod
from tests.installed import Installed, decision
from tests.strangers import attacked

pytestmark = pytest.mark.controlplane

API_SERVER = "127.0.0.1"
"""From where it calls. Other addresses are easier to tell apart, and are in tests/server and in `bench.strangers`."""
LARGE = {"args": ["x" * 500_000]}
ATTACKS = (
    *("64 bodies of 8 MB, but for their end", "bodies in records of one byte", "six senders of 75,000 containers"),
    "200 connections that ask all the time",
)


@pytest.mark.parametrize("attack", ATTACKS)
async def test_pods_are_created_meanwhile(
    installed: Installed, api: Api, team: str, nodes: MakeNodes, attack: str
) -> None:
    await nodes("two-node")
    async with attacked(installed.ports[0], attack, API_SERVER):
        for count, container in ((30, {}), (10, LARGE)):
            pods = [pod(f"p-{count}-{number}", container=container) for number in range(count)]
            for stored in await asyncio.gather(*[api.create(each, team) for each in pods]):
                assert decision(stored), "the mutating hook was skipped"
    found = installed.metrics()
    assert found["process_resident_memory_bytes"] < 700 << 20


async def test_of_300_pods_80_at_a_time_none_fails_while_a_stranger_holds_all_connections(
    installed: Installed, api: Api, team: str, nodes: MakeNodes
) -> None:
    await nodes("two-node")
    working = asyncio.Semaphore(80)

    async def create(number: int) -> str:
        async with working:
            return await refusal(api.create(pod(f"p-{number}"), team))

    async with attacked(installed.ports[0], "1,024 connections with one review each", API_SERVER):
        said = await asyncio.gather(*(create(number) for number in range(300)))
    assert not any(said)
