"""Pods that get GPUs by DRA, on the real scheduler: all of them run, each on the node that was chosen for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bench import devices as load
from tests.controlplane.api import Api
from tests.controlplane.clusters import applied
from tests.controlplane.nodes import node
from tests.controlplane.programs import SERVES_EXTENDED_RESOURCES
from tests.installed import Installed, decision

pytestmark = pytest.mark.controlplane
SIZES = (8, 8, 4, 4, 2, 2)
PODS = {1: 4, 2: 2, 4: 1, 8: 2}
"""Number of pods by their GPUs: 28 of 28 GPUs, so that one pod on a wrong node leaves another one without."""


@pytest.fixture
async def devices(api: Api) -> AsyncIterator[None]:
    names = [f"dra-{number}" for number in range(len(SIZES))]
    objects = [load.slice_of(name, gpus, "templates") for name, gpus in zip(names, SIZES, strict=True)]
    objects += load.classes("templates")
    async with applied(api, [node(name, 0, cpu="192", memory="2Ti") for name in names]):
        await asyncio.gather(*[api.create(each) for each in objects])
        try:
            yield
        finally:
            for each in objects:
                await api.delete(each["kind"], each["metadata"]["name"])


@pytest.mark.parametrize("ask", ["templates", *(["extended"] if SERVES_EXTENDED_RESOURCES else [])])
async def test_a_mixed_burst_leaves_no_gpu_pending(
    installed: Installed, api: Api, team: str, devices: None, ask: str
) -> None:
    await asyncio.gather(*[api.create(load.template(gpus, ask), team) for gpus in PODS])
    mixed = [(gpus, number) for gpus, count in PODS.items() for number in range(count)]
    await asyncio.gather(
        *[api.create(load.workload(gpus * 10 + number, "Job", 1, gpus, ask, "100m"), team) for gpus, number in mixed]
    )
    found = await api.running(team, len(mixed), within=180)
    records = [decision(pod) for pod in found]
    assert [pod["spec"]["nodeName"] for pod in found] == [record["nodes"][0][0] for record in records]
    asked = sorted(record["asked"][f"devices/{load.DRIVER}"] for record in records)
    assert asked == sorted(1000 * gpus for gpus, _ in mixed)
    claims: list[Any] = await api.list("ResourceClaim", team)
    results = [result["device"] for claim in claims for result in claim["status"]["allocation"]["devices"]["results"]]
    assert len(results) == sum(SIZES)
