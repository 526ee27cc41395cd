"""Karpenter with its kwok provider: what it makes of a preference. From zero nodes, first with us and then without."""

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.objects import Json, deployment, job, made, pod, preferred
from tests.controlplane.settings import HOST
from tests.e2e.others.room import Place, Room, Start
from tests.installed import SHIPPED, decision, opt_in, tried

pytestmark = pytest.mark.others
_CAPACITY, _ZONE = "karpenter.sh/capacity-type", "topology.kubernetes.io/zone"
_PRICES = {"spot": 10.0, "on-demand": 30.0}


def _offering(zone: str, capacity: str) -> Json:
    requirements = [
        {"key": key, "operator": "In", "values": [of]} for key, of in ((_ZONE, zone), (_CAPACITY, capacity))
    ]
    return {"Price": _PRICES[capacity], "Available": True, "Requirements": requirements}


def _machine() -> Json:
    """One type of machine: 8 GPUs, in three zones, spot or on-demand."""
    return {
        "name": "gpu-8x",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "96", "memory": "768Gi", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": "8"},
        "offerings": [_offering(*each) for each in itertools.product(("zone-a", "zone-b", "zone-c"), _PRICES)],
    }


def setup(place: Place) -> Start:
    flags = {"instance-types-file-path": place.file, "health-probe-port": place.health, "metrics-port": place.metrics}
    flags |= {"disable-leader-election": "true"}
    return Start([_machine()], flags, f"http://{HOST}:{place.health}/readyz")


OTHERS = {"karpenter": setup}
POLICY = SHIPPED + "  pinned: {injectors: {nodeAffinity: {mode: required}}}\n"
PROFILES = ("default", "pinned")
_CLASS = made("KWOKNodeClass", "default", spec={})
_REFERENCE = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
_POOL = made(
    "NodePool",
    "gpus",
    spec={
        "template": {
            "spec": {
                "nodeClassRef": _REFERENCE,
                "expireAfter": "Never",
                "requirements": [{"key": _CAPACITY, "operator": "In", "values": [*_PRICES]}],
            }
        },
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "Never"},
    },
)


class Made(NamedTuple):
    """What Karpenter made: the capacity type of each machine, and the number of zones."""

    machines: list[str]
    zones: int


Then = Callable[[Api, str], Awaitable[None]]


async def _made(api: Api) -> Made:
    labels = [node["metadata"]["labels"] for node in await api.list("Node")]
    return Made(sorted(each[_CAPACITY] for each in labels), len({each[_ZONE] for each in labels}))


@asynccontextmanager
async def pool(room: Room, profile: str) -> AsyncIterator[tuple[Api, str]]:
    """A NodePool that has no machine yet, and a namespace of this profile; "": it has not opted in."""
    async with Api.of(room.plane.kubeconfig) as api:
        await api.create(_CLASS)
        await api.create(_POOL)
        name = await api.namespace(f"{profile or 'plain'}-{uuid.uuid4().hex[:6]}")
        try:
            if profile:
                await opt_in(api, name, profile)
            yield api, name
        finally:
            for kind in ("Deployment", "Job"):
                await api.delete_all(kind, name, propagationPolicy="Background")
            await remove_namespace(api, name)
            await api.delete("NodePool", "gpus")
            await wait_until(lambda: _none(api), 300, "no machines", 1)
            await api.delete("KWOKNodeClass", "default")


async def made_of(room: Room, profile: str, objects: list[Json], then: Then | None = None) -> Made:
    """The machines that are there once the pods of these objects run, and `then` is done."""
    async with pool(room, profile) as (api, name):
        pods = 0
        for each in objects:
            await api.create(each, name)
            pods += each["spec"].get("parallelism") or each["spec"].get("replicas", 1)
            await api.running(name, pods, within=300)
        if then:
            await then(api, name)
        return await _made(api)


def late(zone: str, gpus: int = 4, name: str = "late") -> Json:
    return pod(name, gpus, nodeSelector={_ZONE: zone})


async def outrun(room: Room, profile: str, then: Callable[[Api, str, str], Awaitable[None]]) -> None:
    """A pod `late` has the only machine of its zone for its first choice, which another one fills before the scheduler looks at
    it. `then` gets that zone too."""
    async with pool(room, profile) as (api, name):
        await api.create(deployment("served", 2), name)
        await api.running(name, 2, within=300)
        ((machine, zone),) = [
            (each["metadata"]["name"], each["metadata"]["labels"][_ZONE]) for each in await api.list("Node")
        ]
        beside = await api.namespace(f"beside-{uuid.uuid4().hex[:6]}")  # where pods may name their node

        async def known() -> bool:
            return bool((await tried(api, late(zone), name)).get("nodes"))

        await wait_until(known, 120, f"the webhook to know machine {machine}")
        await asyncio.to_thread(room.plane.stop, "kube-scheduler")
        try:
            stored = await api.create(late(zone), name)
            await api.create(pod("fills", 6, nodeName=machine), beside)
        finally:
            await asyncio.to_thread(room.plane.start, "kube-scheduler")
        found = decision(stored)
        assert (found["nodes"][0][0], found["karpenter"]) == (machine, "1.5")
        assert machine in str(stored["spec"]["affinity"])
        try:
            await then(api, name, zone)
        finally:
            await remove_namespace(api, beside)


async def _none(api: Api) -> bool:
    return not await api.list("NodeClaim") and not await api.list("Node")


async def _consolidated(api: Api, name: str) -> None:
    """Once services have fewer replicas, and Karpenter has had time to merge its machines."""
    left = {"served": 4, "first": 0}
    there = [each["metadata"]["name"] for each in await api.list("Deployment", name)]
    for each in there:
        await api.patch("Deployment", each, {"spec": {"replicas": left[each]}}, name)
    await api.running(name, 4, within=300)
    await api.patch("NodePool", "gpus", {"spec": {"disruption": {"consolidateAfter": "2s"}}})

    async def merged() -> bool:
        return len(await api.list("Node")) == 1

    await wait_until(merged, 300, "one machine", 1)
    await api.running(name, 4, within=300)


def _on_demand(found: Json) -> Json:
    found["spec"]["template"]["spec"]["affinity"] = preferred(_CAPACITY, "In", "on-demand", weight=50)
    return found


CASES = [
    pytest.param([job("trainer", 8, 1)], 1, None, id="a Job of 8 pods of one GPU"),
    pytest.param([job("gang", 4, 8)], 4, None, id="a gang of 4 pods of 8 GPUs"),
    pytest.param([deployment("served", 6)], 1, None, id="a service of 6 replicas"),
    pytest.param(
        [deployment("served", 12), deployment("other", 4)], 2, None, id="a service of 12 replicas, and another one"
    ),
    pytest.param([deployment("served", 2), job("trainer", 8, 1)], 2, None, id="a Job, once there is a machine"),
    pytest.param(
        [_on_demand(job("first", 1, 4)), _on_demand(job("then", 3, 4))],
        2,
        None,
        id="pods that their author prefers on-demand",
    ),
    pytest.param([deployment("served", 12)], 1, _consolidated, id="a service of 12 replicas that is left with 4"),
    pytest.param(
        [deployment("first", 2, 5), deployment("served", 6)],
        1,
        _consolidated,
        id="a service on machines that others leave",
    ),
]


@pytest.mark.parametrize(("objects", "machines", "then"), CASES)
def test_as_many_machines_as_without_us(objects: list[Json], machines: int, then: Then | None, room: Room) -> None:
    found = {profile: asyncio.run(made_of(room, profile, objects, then)).machines for profile in (*PROFILES, "")}
    room.check()
    assert len(found[""]) == machines
    assert found == dict.fromkeys(found, found[""]), "also the capacity type that the author prefers"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_pod_that_comes_too_late_for_its_machine_gets_another(profile: str, room: Room) -> None:
    async def runs(api: Api, name: str, _: str) -> None:
        await api.running(name, 3, within=300)
        assert len(await api.list("Node")) == 2

    asyncio.run(outrun(room, profile, runs))
    room.check()
