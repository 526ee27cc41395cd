"""Kubeflow's training operator: it makes the pods of a PyTorchJob, an MPIJob and others itself."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, made, pod_spec
from tests.controlplane.settings import HOST
from tests.e2e.behaviour.case import ZONE, Case, not_told, on, runs
from tests.e2e.others import kit
from tests.e2e.others.kit import follow, of_gpus_in_one, racks
from tests.e2e.others.room import Place, Room, Start

pytestmark = pytest.mark.others
test_with_us_and_without, test_no_pod_is_made_again = kit.test_with_us_and_without, kit.test_no_pod_is_made_again
_CERTIFICATE = Path("/tmp/k8s-webhook-server/serving-certs/tls.crt")
"""That it is there is all that it asks before it starts (pkg/cert); what it serves is where TMPDIR says."""


def _setup(place: Place) -> Start:
    """Without its webhook, which checks the names of jobs."""
    folder = place.folder / "k8s-webhook-server"
    folder.mkdir()
    (folder / "serving-certs").symlink_to(place.folder)
    _CERTIFICATE.parent.mkdir(parents=True, exist_ok=True)
    _CERTIFICATE.touch()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "kubeflow"}}
    secret["metadata"]["name"] = "training-operator-webhook-cert"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubeflow"}}
    flags = {"webhook-server-port": place.hooks, "metrics-bind-address": 0}
    flags |= {"health-probe-bind-address": f"{HOST}:{place.health}"}
    return Start({}, flags, f"http://{HOST}:{place.health}/readyz", [namespace, secret])


OTHERS = {"training-operator": _setup}


_KINDS = {
    "PyTorchJob": ("pytorch", {"Master": (1, 8), "Worker": (1, 8)}),
    "TFJob": ("tensorflow", {"Worker": (2, 8)}),
    "MPIJob": ("mpi", {"Launcher": (1, 0), "Worker": (2, 8)}),
}
"""By kind: the container that it knows, and the replicas of each type with their GPUs."""


def _spec(kind: str, suspended: bool = False) -> Json:
    name, replicas = _KINDS[kind]
    container = {"name": name, "command": ["true"]}
    specs = {
        each: {"replicas": count, "template": {"spec": pod_spec(gpus, container=container)}}
        for each, (count, gpus) in replicas.items()
    }
    field = f"{kind.removesuffix('Job').lower()}ReplicaSpecs"
    return {field: specs, "runPolicy": {"suspend": suspended, "cleanPodPolicy": "None"}}


CASES = [
    Case(
        f"the pods of a {kind} run in one zone",
        racks(2, 2, ZONE),
        [made(kind, "fit", spec=_spec(kind))],
        [runs(count=sum(count for count, _ in replicas.values())), of_gpus_in_one(ZONE), not_told("fit", "remove")],
    )
    for kind, (_, replicas) in _KINDS.items()
]
CASES.append(
    Case(
        "a TFJob begins in the zone that holds all of it, which its pods say by a variable",
        [node("a", 8, labels={ZONE: "@small"}), *[node(name, 8, labels={ZONE: "@large"}) for name in "bc"]],
        [made("TFJob", "fit", spec=_spec("TFJob"))],
        [on("b c")],
    )
)


@pytest.mark.parametrize("kind", _KINDS)
def test_why_follows_it_from_suspended_to_bound(kind: str, room: Room) -> None:
    asyncio.run(follow(room, kind, partial(_spec, kind)))
