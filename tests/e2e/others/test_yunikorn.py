"""YuniKorn: it orders the pods of a queue by priority, and holds room for a gang with placeholder pods, which we see too."""

import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, deployment, job, made, pod
from tests.controlplane.settings import HOST
from tests.e2e.others.room import Place, Room, Start
from tests.installed import opt_in

pytestmark = pytest.mark.others
_QUEUES = """partitions:
- name: default
  placementrules: [{name: tag, value: namespace, create: true}]
  queues: [{name: root, submitacl: "*"}]
"""


def _setup(_: Place) -> Start:
    configured = made("ConfigMap", "yunikorn-configs", data={"queues.yaml": _QUEUES})
    configured["metadata"]["namespace"] = "default"
    return Start({}, {}, f"http://{HOST}:9080/ws/v1/clusters", [configured])  # it has no setting for the port


OTHERS = {"yunikorn": _setup}
_BY = {"schedulerName": "yunikorn"}


def _app(name: str) -> dict[str, str]:
    """The label of an application, which is one in all namespaces, and for a while after its pods have ended."""
    return {"applicationId": f"{name}-{uuid.uuid4().hex[:6]}"}


def _gang(name: str, pods: int, gpus: int) -> Json:
    """A Job whose pods start once there is room for all of them."""
    group = {"name": "workers", "minMember": pods, "minResource": {"nvidia.com/gpu": str(gpus)}}
    of = {"yunikorn.apache.org/task-group-name": "workers", "yunikorn.apache.org/task-groups": json.dumps([group])}
    return job(name, pods, gpus, labels=_app(name), annotations=of, **_BY)


@pytest_asyncio.fixture
async def api(room: Room) -> AsyncIterator[Api]:
    async with Api.of(room.plane.kubeconfig) as client:
        yield client
    room.check()


@pytest_asyncio.fixture(params=[True, False], ids=["with us", "without us"])
async def team(api: Api, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    name = await api.namespace(f"{'ours' if request.param else 'plain'}-{uuid.uuid4().hex[:6]}")
    if request.param:
        await opt_in(api, name)
    yield name
    for kind in ("Deployment", "Job"):
        await api.delete_all(kind, name, propagationPolicy="Background")
    await remove_namespace(api, name)


def _as_it_came(stored: Json) -> None:
    """Nothing in the pod that YuniKorn would take for a rank or a requirement."""
    spec = stored["spec"]
    assert (spec.get("priorityClassName"), spec["priority"], spec.get("affinity")) == (None, 0, None)
    assert not [
        each for each in spec.get("topologySpreadConstraints", ()) if each["whenUnsatisfiable"] != "ScheduleAnyway"
    ]


async def test_a_gang_runs(api: Api, team: str, room: Room) -> None:
    """Each of its pods in the place of a placeholder pod, which we have seen too."""
    async with clusters.applied(api, [node(f"{zone}{n}", 8, zone=zone) for zone in "ab" for n in (1, 2)]):
        await api.create(_gang("gang", 4, 8), team)

        async def runs() -> bool:
            found = [each for each in await api.pods(team) if each["metadata"]["name"].startswith("gang")]
            assert [each["status"].get("phase") for each in found] == ["Running"] * 4
            return True

        await wait_until(runs, 120, "four pods to run")
        made = [event for event in room.plane.audit_events() if _creates_pod(event, team)]
        placeholders = [each["responseObject"] for each in made if each["responseStatus"]["code"] == 201]
        assert len(made) == len(placeholders) == 8, "none is refused"
        for each in placeholders:
            _as_it_came(each)


def _creates_pod(event: dict[str, Any], namespace: str) -> bool:
    about = event.get("objectRef") or {}
    return (event["verb"], about.get("resource"), about.get("namespace")) == ("create", "pods", namespace) and (
        not about.get("subresource") and "dryRun" not in event["requestURI"]
    )


async def test_a_full_queue_evicts_nobody_and_keeps_its_order(api: Api, team: str) -> None:
    """A Job that came before a service goes before it: neither has a priority that it does not have without us."""
    async with clusters.applied(api, [node("only", 8)]):
        holder = await api.create(pod("holder", 8, labels=_app("holder"), **_BY), team)
        await api.running(team, 1, within=120)
        for made in (
            job("earlier", 1, 8, labels=_app("earlier"), **_BY),
            deployment("later", 1, 8, labels=_app("later"), **_BY),
        ):
            await api.create(made, team)
            name = made["metadata"]["name"]

            async def queued(name: str = name) -> bool:
                about = {
                    each["involvedObject"]["name"]
                    for each in await api.list("Event", team)
                    if each.get("reason") == "Scheduling"
                }
                return any(each.startswith(f"{name}-") for each in about)

            await wait_until(queued, 120, f"YuniKorn to queue {name}")
        there = await api.pods(team)
        assert [each["metadata"]["uid"] for each in there if each["status"].get("phase") == "Running"] == [
            holder["metadata"]["uid"]
        ]
        for each in there:
            _as_it_came(each)
        await api.delete("Pod", "holder", team, grace=0)
        await api.running(team, 1, within=120)
        (first,) = [each for each in await api.pods(team) if each["status"].get("phase") == "Running"]
        assert first["metadata"]["name"].startswith("earlier-")
