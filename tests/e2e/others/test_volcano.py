"""Volcano: it orders the jobs of a queue by priority, and preempts by it."""

import asyncio
import json

import pytest

from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.objects import Json, pod_spec
from tests.controlplane.settings import HOST
from tests.e2e.others import queues
from tests.e2e.others.queues import NODES, as_it_came, keeps_its_order
from tests.e2e.others.room import Place, Room, Start

pytestmark = pytest.mark.others
api, team, POLICY = queues.api, queues.team, queues.POLICY
_PLUGINS = (
    ({"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}),
    (
        {"name": "drf", "enablePreemptable": False},
        *({"name": each} for each in ("predicates", "proportion", "nodeorder")),
    ),
)
_CONFIGURED = {"actions": "enqueue, allocate, preempt, backfill", "tiers": [{"plugins": [*each]} for each in _PLUGINS]}


def _setup(place: Place, **flags: object) -> Start:
    flags |= {"kubeconfig": place.kubeconfig, "leader-elect": "false", "listen-address": f"{HOST}:{place.metrics}"}
    flags |= {"enable-healthz": "true", "healthz-address": f"{HOST}:{place.health}"}
    return Start(_CONFIGURED, flags, f"http://{HOST}:{place.health}/healthz")


def _scheduler(place: Place) -> Start:
    return _setup(place, **{"scheduler-conf": place.file, "cache-dumper": "false"})


OTHERS = {"volcano-controller": _setup, "volcano-scheduler": _scheduler}
_BY = {"schedulerName": "volcano"}


def _gang(name: str, pods: int, gpus: int) -> Json:
    task = {"name": "worker", "replicas": pods, "template": {"spec": pod_spec(gpus, restartPolicy="Never", **_BY)}}
    spec = {**_BY, "minAvailable": pods, "queue": "default", "tasks": [task], "maxRetry": 3}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def _kubectl(room: Room, *arguments: str, given: str | None = None) -> str:
    return (await asyncio.to_thread(room.plane.kubectl, *arguments, input=given)).stdout


async def test_a_gang_runs(api: Api, team: str, room: Room) -> None:
    async with clusters.applied(api, NODES):
        await _kubectl(room, "apply", "-n", team, "-f", "-", given=json.dumps(_gang("gang", 4, 8)))
        for each in await api.running(team, 4):
            as_it_came(each)
        await _kubectl(room, "delete", "jobs.batch.volcano.sh", "gang", "-n", team)


async def test_a_full_queue_evicts_nobody_and_keeps_its_order(api: Api, team: str, room: Room) -> None:
    async def queued(name: str) -> bool:
        found = await api.pods(team, app=name)
        groups = json.loads(await _kubectl(room, "get", "podgroups.scheduling.volcano.sh", "-n", team, "-o", "json"))
        known = {owner["name"] for group in groups["items"] for owner in group["metadata"].get("ownerReferences", ())}
        owners = {owner["name"] for each in found for owner in each["metadata"].get("ownerReferences", ())}
        return bool(owners & known)

    await keeps_its_order(api, team, lambda _: _BY, queued)
