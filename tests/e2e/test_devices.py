"""Pods that get GPUs by DRA, on the real scheduler: all of them run, each on the node that was chosen for it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bench import devices as load
from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.clusters import applied
from tests.controlplane.nodes import node
from tests.controlplane.programs import SERVES_EXTENDED_RESOURCES
from tests.installed import Installed, decision, opt_in

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


async def test_what_a_claim_asks_for_is_checked_where_it_is_written_and_in_the_pod(
    installed: Installed, api: Api, team: str, devices: None
) -> None:
    """Shipped policy: 16 devices at most. The API server itself keeps `adminAccess` to namespaces that are labelled for it."""
    refused = await refusal(api.create(load.template(17, "templates"), team))
    assert "spec.spec.devices.requests[0]: saw 17 in request" in refused
    assert "[gpuLimit]" in refused
    admin = load.template(1, "templates")
    admin["spec"]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    assert "resource.kubernetes.io/admin-access" in await refusal(api.create(admin, team))
    await api.patch("Namespace", team, {"metadata": {"labels": {"gpu-admission.io/profile": None}}})
    await api.create(load.template(17, "templates"), team)
    await opt_in(api, team)
    pod = load.workload(1, "Job", 1, 17, "templates", "100m")["spec"]["template"]
    pod |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}}

    async def seen() -> str:  # once the watch has brought the template
        return await refusal(api.create(pod, team, dryRun="All"))

    words = await wait_until(seen, 120, "the pod to be refused")
    assert 'spec.resourceClaims[0]: saw 17 in request "gpu" of template "gpus-17"' in words
