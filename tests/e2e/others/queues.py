"""What tests of schedulers with queues have: a namespace, with us and without us, and how a queue keeps its order."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, deployment, job, pod
from tests.e2e.others.room import Room
from tests.installed import SHIPPED, opt_in

NODES = [node(f"{zone}{number}", 8, zone=zone) for zone in "ab" for number in (1, 2)]


@pytest_asyncio.fixture
async def api(room: Room) -> AsyncIterator[Api]:
    async with Api.of(room.plane.kubeconfig) as client:
        yield client
    room.check()


POLICY = SHIPPED + "  fed: {injectors: {cpuPerGpu: {enabled: true}}}\n"


@pytest_asyncio.fixture(
    params=["default", "fed", ""], ids=["with us", "with us, which fill in requests of CPU", "without us"]
)
async def team(api: Api, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    name = await api.namespace(f"team-{uuid.uuid4().hex[:6]}")
    if request.param:
        await opt_in(api, name, request.param)
    yield name
    for kind in ("Deployment", "Job"):
        await api.delete_all(kind, name, propagationPolicy="Background")
    await remove_namespace(api, name)


def as_it_came(stored: Json) -> None:
    """Nothing in the pod that its scheduler would take for a rank or a requirement."""
    spec = stored["spec"]
    assert (spec.get("priorityClassName"), spec["priority"], spec.get("affinity")) == (None, 0, None)
    constraints = spec.get("topologySpreadConstraints", ())
    assert not [each for each in constraints if each["whenUnsatisfiable"] != "ScheduleAnyway"]


async def keeps_its_order(
    api: Api, team: str, of: Callable[[str], Mapping[str, Any]], queued: Callable[[str], Awaitable[bool]]
) -> None:
    """A full queue evicts nobody, and a Job that came before a service goes before it.

    `of`: the scheduler and the labels of the pods of a workload, by its name. `queued`: whether the scheduler knows a pod of it.
    """
    async with clusters.applied(api, [node("only", 8)]):
        holder = await api.create(pod("holder", 8, **of("holder")), team)
        await api.running(team, 1)
        for made in (job("earlier", 1, 8, **of("earlier")), deployment("later", 1, 8, **of("later"))):
            await api.create(made, team)
            name = made["metadata"]["name"]
            await wait_until(lambda name=name: queued(name), 120, f"{name} to be in the queue")
            await asyncio.sleep(1.1)  # times of creation have whole seconds
        there = await api.pods(team)
        assert [each["metadata"]["uid"] for each in there if _runs(each)] == [holder["metadata"]["uid"]]
        for each in there:
            as_it_came(each)
        await api.delete("Pod", "holder", team, grace=0)

        async def next_one() -> Json:
            found = [each for each in await api.pods(team) if _runs(each) and each["metadata"]["name"] != "holder"]
            assert len(found) == 1, f"{len(found)} run"
            return found[0]

        first = await wait_until(next_one, 120, "one pod to run")
        assert first["metadata"]["name"].startswith("earlier-")


def _runs(found: Json) -> bool:
    return bool(found["status"].get("phase") == "Running")
