"""The MPI operator (`v2beta1`): a launcher without GPUs, and workers that it makes itself."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.controlplane.kinds import KINDS
from tests.controlplane.objects import Json, made, pod_spec
from tests.controlplane.settings import HOST
from tests.e2e.behaviour.case import ZONE, Case, not_told, runs
from tests.e2e.others import kit
from tests.e2e.others.kit import follow, of_gpus_in_one, racks
from tests.e2e.others.room import Place, Room, Start

pytestmark = pytest.mark.others
test_with_us_and_without, test_no_pod_is_made_again = kit.test_with_us_and_without, kit.test_no_pod_is_made_again


def _setup(place: Place) -> Start:
    flags = {"kubeConfig": place.kubeconfig, "monitoring-port": place.metrics, "lock-namespace": "default"}
    return Start({}, flags, f"http://{HOST}:{place.metrics}/metrics")


OTHERS = {"mpi-operator": _setup}
_VERSION = "kubeflow.org/v2beta1"


@pytest.fixture(scope="module", autouse=True)
def of_its_version() -> Iterator[None]:
    """Of the training operator's MPIJob there is a `v1`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KINDS, "MPIJob", (f"/apis/{_VERSION}", "mpijobs", True))
        yield


def _spec(suspended: bool = False) -> Json:
    replicas = {
        each: {"replicas": count, "template": {"spec": pod_spec(gpus, container={"name": "mpi", "command": ["true"]})}}
        for each, count, gpus in (("Launcher", 1, 0), ("Worker", 2, 8))
    }
    return {"slotsPerWorker": 8, "runPolicy": {"suspend": suspended}, "mpiReplicaSpecs": replicas}


CASES = [
    Case(
        "the workers of an MPIJob run in one zone",
        racks(2, 2, ZONE),
        [made("MPIJob", "fit", spec=_spec()) | {"apiVersion": _VERSION}],
        [runs(count=3), of_gpus_in_one(ZONE), not_told("fit", "remove")],
    )
]


def test_why_follows_it_from_suspended_to_bound(room: Room) -> None:
    asyncio.run(follow(room, "MPIJob", _spec))
