"""While a stranger attacks the port, pods are created through the real API server, and no creation fails.

Many at once, so that the API server needs new connections; and large ones, whose reviews come in several pieces.

How much longer they take is measured by `bench.strangers`.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.controlplane.api import Api, ApiError
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import pod
from tests.installed import Installed, decision
from tests.strangers import ATTACKS, attacked

pytestmark = pytest.mark.controlplane

LARGE = {"args": ["x" * 500_000]}


@pytest.mark.parametrize("address", ["127.0.7.2", "127.0.0.1"], ids=["another address", "that of the API server"])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_pods_are_created_meanwhile(
    installed: Installed, api: Api, team: str, nodes: MakeNodes, attack: str, address: str
) -> None:
    await nodes("two-node")
    async with attacked(installed.ports[0], attack, address):
        for count, container in ((30, {}), (10, LARGE)):
            pods = [pod(f"p-{count}-{number}", container=container) for number in range(count)]
            for stored in await asyncio.gather(*[api.create(each, team) for each in pods]):
                assert decision(stored), "the mutating hook was skipped"
    found = installed.metrics()
    assert found["process_resident_memory_bytes"] < 700 << 20


@pytest.mark.parametrize("address", ["127.0.7.2", "127.0.0.1"], ids=["another address", "that of the API server"])
async def test_of_300_pods_80_at_a_time_none_fails_while_a_stranger_holds_all_connections(
    installed: Installed, api: Api, team: str, nodes: MakeNodes, address: str
) -> None:
    await nodes("two-node")
    working, failed = asyncio.Semaphore(80), []

    async def create(number: int) -> None:
        async with working:
            try:
                await api.create(pod(f"p-{number}"), team)
            except ApiError as error:
                failed.append(str(error))

    async with attacked(installed.ports[0], "1,024 connections with one review each", address):
        await asyncio.gather(*(create(number) for number in range(300)))
    assert failed == []
