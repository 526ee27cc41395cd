"""Kubeflow Trainer: it makes a JobSet of a TrainJob and its runtime, whose template it completes."""

import asyncio

import pytest

from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, made, pod_spec
from tests.controlplane.settings import HOST
from tests.e2e.behaviour.case import ZONE, Case, not_told, runs, together
from tests.e2e.others import kit, test_jobset
from tests.e2e.others.kit import follow
from tests.e2e.others.room import Place, Room, Start, manager

pytestmark = pytest.mark.others
test_with_us_and_without, test_no_pod_is_made_again = kit.test_with_us_and_without, kit.test_no_pod_is_made_again
_TAINT = "nvidia.com/gpu=true:NoSchedule"
_TOLERATED = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def _setup(place: Place) -> Start:
    """Its certificates are where controller-runtime looks for them, since its configuration has no field for that."""
    folder = place.folder / "k8s-webhook-server"
    folder.mkdir()
    (folder / "serving-certs").symlink_to(place.folder)
    settings = {"certManagement": {"enable": False}, "webhook": {"host": HOST, "port": place.hooks}}
    return manager("config.trainer.kubeflow.org/v1alpha1", internalCertManagement=None, **settings)(place)


OTHERS = {**test_jobset.OTHERS, "trainer": _setup}


def _runtime(**spec: object) -> Json:
    """Its template has no GPU: that comes with the TrainJob."""
    step = {"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}}
    found = pod_spec(0, container={"name": "node"}, restartPolicy="Never", **spec)
    job = {"name": "node", "template": step | {"spec": {"template": {"spec": found}}}}
    policy = {"numNodes": 1, "torch": {}}
    labels = {"trainer.kubeflow.org/framework": "torch"}
    return made(
        "TrainingRuntime",
        "torch",
        labels=labels,
        spec={"mlPolicy": policy, "template": {"spec": {"replicatedJobs": [job]}}},
    )


def _spec(suspended: bool = False) -> Json:
    """Of a TrainJob on two nodes of 8 GPUs."""
    runtime = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "torch"}
    trainer = {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}}
    return {"runtimeRef": runtime, "trainer": trainer, "suspend": suspended}


CASES = [
    Case(
        "its pods run in one zone, on nodes whose taint the runtime tolerates, and nobody is told to remove that",
        [node(f"{zone}-{at}", 8, labels={ZONE: f"@{zone}"}, taints=[_TAINT]) for zone in "ab" for at in (0, 1)],
        [_runtime(tolerations=[_TOLERATED])],
        [runs(count=2), together(ZONE), not_told("torch", "remove")],
        later=[made("TrainJob", "fit", spec=_spec())],
        without=[runs(count=2)],
    )
]


def test_why_follows_it_from_suspended_to_bound(room: Room) -> None:
    asyncio.run(follow(room, "TrainJob", _spec, [_runtime()]))
