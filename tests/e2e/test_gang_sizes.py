"""The size of a gang is known to both replicas of the webhook, or to none, whichever of them has reviewed the workload."""

import asyncio
import json
import ssl
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from tests.builders import admission_review
from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, custom, made, pod, pod_spec
from tests.controlplane.plane import ControlPlane
from tests.e2e.bare import bare
from tests.e2e.late import PATIENT
from tests.installed import Installed, decision, opt_in
from tests.served import after

pytestmark = pytest.mark.controlplane
TEAM = "team"
NODES = [node(name, gpus, zone=name[0]) for name, gpus in (("a1", 8), ("a2", 8), ("b1", 16), ("b2", 16))]
"""A pod of 8 GPUs fits best into zone a, which has room for two of four; zone b has room for all."""
TF_CONFIG = {"name": "TF_CONFIG", "value": json.dumps({"cluster": {"worker": ["w0", "w1", "w2", "w3"]}})}
"""As the training operator writes it into each pod of a TFJob."""
TEMPLATE: Json = {"template": {"metadata": {}, "spec": pod_spec(8, restartPolicy="Never")}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(beside: ControlPlane) -> AsyncIterator[Installed]:
    async with bare(beside) as api:
        kinds = [custom("MPIJob", "kubeflow.org", "v1"), custom("TFJob", "kubeflow.org", "v1")]
        with (
            beside.serving(*kinds, custom("RayCluster", "ray.io", "v1")),
            Installed(beside, replicas=2, before=PATIENT) as installed,
        ):
            await clusters.apply(api, NODES)
            await api.namespace(TEAM)
            await opt_in(api, TEAM)
            yield installed


def first_zone(installed: Installed, replica: int, obj: Json) -> str:
    """That of the node which this replica would choose, asked as the API server asks for a dry run; "" if none. Among nodes that
    are equal each replica has an order of its own."""
    url = f"https://127.0.0.1:{installed.ports[replica]}/mutate"
    body = orjson.dumps(admission_review(obj, TEAM, dryRun=True))
    asked = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60, context=ssl._create_unverified_context()) as answer:
        found = decision(after(orjson.loads(answer.read())["response"], obj))
    return str(found["nodes"][0][0])[0] if found.get("nodes") else ""


def of(key: str, **group: Any) -> Json:
    return {key: {"Worker": {"replicas": 4, **group, **TEMPLATE}}}


KNOWN = [
    pytest.param(
        "Job", {"parallelism": 4, "completions": 4, "suspend": True, **TEMPLATE}, [], id="a Job, which both watch"
    ),
    pytest.param("TFJob", of("tfReplicaSpecs"), [TF_CONFIG], id="a TFJob, whose pods say it"),
]
UNKNOWN = [
    pytest.param("MPIJob", of("mpiReplicaSpecs"), [], id="an MPIJob"),
    pytest.param(
        "RayCluster", {"workerGroupSpecs": [{"groupName": "w", "replicas": 4, **TEMPLATE}]}, [], id="a RayCluster"
    ),
]


async def chosen_by_both(both: Installed, kind: str, spec: Json, env: list[Any], first: str) -> None:
    async with Api.of(both.plane.kubeconfig) as api:
        gang = await api.create(made(kind, "gang", spec=spec), TEAM)
        member = pod("gang-0", 8, namespace=TEAM, owned_by=kind, restartPolicy="Never")
        member["metadata"]["ownerReferences"][0] |= {key: gang["metadata"][key] for key in ("name", "uid")}
        member["spec"]["containers"][0]["env"] = env

        async def alike() -> bool:
            found = [await asyncio.to_thread(first_zone, both, number, member) for number in range(2)]
            assert found == [first, first]
            return True

        try:
            await wait_until(alike, 120, f"both to choose zone {first}")
        finally:
            await api.delete(kind, "gang", TEAM)


@pytest.mark.parametrize(("kind", "spec", "env"), KNOWN)
async def test_both_begin_where_all_have_room(both: Installed, kind: str, spec: Json, env: list[Any]) -> None:
    await chosen_by_both(both, kind, spec, env, "b")


@pytest.mark.parametrize(("kind", "spec", "env"), UNKNOWN)
async def test_of_a_gang_that_does_not_say_its_size_none_knows_it(
    both: Installed, kind: str, spec: Json, env: list[Any]
) -> None:
    """Though one of them has reviewed it."""
    await chosen_by_both(both, kind, spec, env, "a")
