"""While a stranger attacks the port, pods are created through the real API server, and no creation fails.

Many at once, so that the API server needs new connections; and large ones, whose reviews come in several pieces.

How much longer they take is measured by `bench.strangers`.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.controlplane.api import Api
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import pod
from tests.installed import Installed
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
                assert "gpu-admission.io/decision" in stored["metadata"]["annotations"], "the mutating hook was skipped"
    found = installed.metrics()
    assert found["process_resident_memory_bytes"] < 700 << 20
