"""KubeRay: replicas of several hosts, and what `why` finds above Ray's pods."""

import asyncio
import uuid
from collections.abc import Callable

import pytest

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, made, pod_spec
from tests.controlplane.settings import HOST
from tests.e2e.behaviour.case import ZONE, Case, not_told, runs
from tests.e2e.others import kit
from tests.e2e.others.kit import each_in_one, follow, racks, said_of
from tests.e2e.others.room import Place, Room, Start
from tests.installed import opt_in

pytestmark = pytest.mark.others
test_with_us_and_without, test_no_pod_is_made_again = kit.test_with_us_and_without, kit.test_no_pod_is_made_again
_REPLICA = "ray.io/worker-group-replica-name"


def _setup(place: Place) -> Start:
    flags = {"metrics-addr": "0", "health-probe-bind-address": f"{HOST}:{place.health}"}
    return Start({}, flags | {"enable-leader-election": "false"}, f"http://{HOST}:{place.health}/readyz")


OTHERS = {"kuberay": _setup}


def _cluster(replicas: int, hosts: int = 1, gpus: int = 8) -> Json:
    """The spec of a RayCluster, with a head that has no GPU."""
    workers: Json = {"groupName": "gpus", "replicas": replicas, "minReplicas": replicas, "maxReplicas": replicas}
    workers |= {"numOfHosts": hosts, "rayStartParams": {}, "template": {"spec": pod_spec(gpus)}}
    head = {"rayStartParams": {}, "template": {"spec": pod_spec(0)}}
    return {"rayVersion": "2.52.0", "headGroupSpec": head, "workerGroupSpecs": [workers]}


CASES = [
    Case(
        "each replica of several hosts runs in one zone, of a cluster that is larger than a zone",
        racks(3, 2, ZONE),
        [made("RayCluster", "served", spec=_cluster(3, hosts=2))],
        [runs(count=7), each_in_one(_REPLICA, ZONE), not_told("served", "remove")],
    ),
    Case(
        "each replica of a RayService that has several hosts too",
        racks(2, 2, ZONE),
        [made("RayService", "served", spec={"serveConfigV2": "", "rayClusterConfig": _cluster(2, hosts=2)})],
        [runs(count=5), each_in_one(_REPLICA, ZONE), not_told("served", "remove")],
    ),
]


_JOB = {"entrypoint": "true", "shutdownAfterJobFinishes": True, "rayClusterSpec": _cluster(2)}
_SUSPENDED = [
    ("RayCluster", lambda value: _cluster(2) | {"suspend": value}),
    ("RayJob", lambda value: _JOB | {"suspend": value}),
    ("RayService", lambda value: {"serveConfigV2": "", "rayClusterConfig": _cluster(2) | {"suspend": value}}),
]


@pytest.mark.parametrize(("kind", "spec"), _SUSPENDED, ids=[kind for kind, _ in _SUSPENDED])
def test_why_follows_it_from_suspended_to_bound(kind: str, spec: Callable[[bool], Json], room: Room) -> None:
    asyncio.run(follow(room, kind, spec))


def test_a_service_that_the_operator_does_not_find_is_no_lack_of_pods(room: Room) -> None:
    """It creates its service again as long as it does not see that it did: without a label of it, or for a moment after it was
    created. That fails, and no pod waits for it."""

    async def check() -> None:
        async with Api.of(room.plane.kubeconfig) as api, clusters.applied(api, [node("only", 8)]):
            team = await api.namespace(f"team-{uuid.uuid4().hex[:6]}")
            await opt_in(api, team)
            await api.create(made("RayCluster", "fit", spec=_cluster(1)), team)
            await api.running(team, 2)
            await api.patch("Service", "fit-head-svc", {"metadata": {"labels": {"ray.io/identifier": None}}}, team)

            async def said() -> bool:
                return "FailedToCreateService" in [each["reason"] for each in await api.list("Event", team)]

            await wait_until(said, 120, "the operator to say that the service exists already")
            assert [each["causes"] for each in await said_of(room, "raycluster/fit", team)] == [[]]
            await api.delete("RayCluster", "fit", team)
            await remove_namespace(api, team)

    asyncio.run(check())
    room.check()
