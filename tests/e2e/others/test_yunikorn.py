"""YuniKorn: it orders the pods of a queue by priority, and holds room for a gang with placeholder pods, which we see too."""

import json
import uuid
from typing import Any

import pytest

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.objects import Json, job, made
from tests.controlplane.settings import HOST
from tests.e2e.others import queues
from tests.e2e.others.queues import NODES, as_it_came, keeps_its_order
from tests.e2e.others.room import Place, Room, Start

pytestmark = pytest.mark.others
api, team, POLICY = queues.api, queues.team, queues.POLICY
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
_BY: dict[str, Any] = {"schedulerName": "yunikorn"}


def _app(name: str) -> dict[str, str]:
    """The label of an application, which is one in all namespaces, and for a while after its pods have ended."""
    return {"applicationId": f"{name}-{uuid.uuid4().hex[:6]}"}


def _gang(name: str, pods: int, gpus: int) -> Json:
    """A Job whose pods start once there is room for all of them."""
    group = {"name": "workers", "minMember": pods, "minResource": {"nvidia.com/gpu": str(gpus)}}
    of = {"yunikorn.apache.org/task-group-name": "workers", "yunikorn.apache.org/task-groups": json.dumps([group])}
    return job(name, pods, gpus, labels=_app(name), annotations=of, **_BY)


async def test_a_gang_runs(api: Api, team: str, room: Room) -> None:
    """Each of its pods in the place of a placeholder pod, which we have seen too."""
    async with clusters.applied(api, NODES):
        await api.create(_gang("gang", 4, 8), team)

        async def runs() -> bool:
            found = [each for each in await api.pods(team) if each["metadata"]["name"].startswith("gang")]
            assert [each["status"].get("phase") for each in found] == ["Running"] * 4
            return True

        await wait_until(runs, 120, "four pods to run")

        async def eight() -> list[Json]:  # an audit event may come a moment after its answer
            found = [event for event in room.plane.audit_events() if _creates_pod(event, team)]
            return found if len(found) >= 8 else []

        tried = await wait_until(eight, 120, "eight pods in the audit log", 1)
        stored = [each["responseObject"] for each in tried if each["responseStatus"]["code"] == 201]
        assert len(tried) == len(stored) == 8, "none is refused"
        for each in stored:
            as_it_came(each)
            requests = each["spec"]["containers"][0]["resources"]["requests"]
            assert requests == {"nvidia.com/gpu": "8"}, "YuniKorn cancels placeholders that are smaller than their pods"


def _creates_pod(event: dict[str, Any], namespace: str) -> bool:
    about = event.get("objectRef") or {}
    return (event["verb"], about.get("resource"), about.get("namespace")) == ("create", "pods", namespace) and (
        not about.get("subresource") and "dryRun" not in event["requestURI"]
    )


async def test_a_full_queue_evicts_nobody_and_keeps_its_order(api: Api, team: str) -> None:
    async def queued(name: str) -> bool:
        said = [
            each["involvedObject"]["name"]
            for each in await api.list("Event", team)
            if each.get("reason") == "Scheduling"
        ]
        return any(each.startswith(f"{name}-") for each in said)

    await keeps_its_order(api, team, lambda name: _BY | {"labels": _app(name)}, queued)
