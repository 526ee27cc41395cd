"""Kueue: it ranks and groups pods by what is in them."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.objects import Json, job, made, pod
from tests.e2e.others.room import Room, manager
from tests.installed import decision, opt_in

pytestmark = pytest.mark.others
OTHERS = {
    "kueue": manager("config.kueue.x-k8s.io/v1beta2", integrations={"frameworks": ["batch/job", "pod"]}),
}
_QUEUE, _GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"
_GPUS = 48


@pytest_asyncio.fixture
async def api(room: Room) -> AsyncIterator[Api]:
    """With six nodes of 8 GPUs, and one queue for all of them where a higher priority preempts."""
    quota = {"name": "nvidia.com/gpu", "nominalQuota": _GPUS}
    resources = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "gpus", "resources": [quota]}]}
    spec: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": [resources]}
    spec["preemption"] = {"withinClusterQueue": "LowerPriority"}
    queue = made("ResourceFlavor", "gpus", spec={}), made("ClusterQueue", "gpus", spec=spec)
    nodes = clusters.cluster("6x8")
    async with Api.of(room.plane.kubeconfig) as client, clusters.applied(client, nodes), client.having(*queue):
        yield client
    room.check()


@pytest_asyncio.fixture
async def team(api: Api) -> AsyncIterator[str]:
    """A namespace with a queue that has opted in."""
    name = await api.namespace(f"team-{uuid.uuid4().hex[:6]}")
    await api.create(made("LocalQueue", "queue", spec={"clusterQueue": "gpus"}), name)
    await opt_in(api, name)
    yield name
    await api.delete_all("Job", name, propagationPolicy="Background")
    await remove_namespace(api, name)
    await api.delete_all("LocalQueue", name)


def _queued(found: Json, **labels: str) -> Json:
    found["metadata"].setdefault("labels", {}).update({_QUEUE: "queue", **labels})
    return found


async def test_a_notebook_does_not_evict_a_job_by_a_guess(api: Api, team: str) -> None:
    """Of the same priority as without us: it waits until there is room."""
    await api.create(_queued(job("trainer", 6, 8)), team)
    before = await api.running(team, 6, app="trainer")
    await api.create(_queued(pod("notebook", container={"image": "jupyter/scipy-notebook:1"})), team)

    async def considered() -> bool:
        (found,) = [w for w in await api.list("Workload", team) if w["metadata"]["ownerReferences"][0]["kind"] == "Pod"]
        conditions = {c["type"]: c for c in found.get("status", {}).get("conditions", ())}
        assert found["spec"].get("priority", 0) == 0
        return "insufficient" in conditions.get("QuotaReserved", {}).get("message", "")

    await wait_until(considered, 120, "Kueue to have looked for room for the notebook")
    (trainer,) = [w for w in await api.list("Workload", team) if w["metadata"]["ownerReferences"][0]["kind"] == "Job"]
    assert not [c for c in trainer["status"]["conditions"] if c["type"] in ("Evicted", "Preempted")]
    after = await api.running(team, 6, app="trainer")
    assert {each["metadata"]["uid"] for each in after} == {each["metadata"]["uid"] for each in before}
    (notebook,) = await api.pods(team, app="notebook")
    assert notebook["spec"].get("priorityClassName") is None
    await api.delete_all("Job", team, propagationPolicy="Background")
    await api.running(team, 1, app="notebook")


async def test_a_group_of_pods_that_were_made_by_hand_is_admitted(api: Api, team: str) -> None:
    """Each has labels of its own, for example its index. What we add is equal in all, since Kueue takes 18 kinds at most."""
    for index in range(24):
        labels = {_GROUP: "ray", "ray.io/cluster": "ray", "ray.io/worker-group-replica-index": str(index)}
        one = pod(f"worker-{index}", labels={"app": "ray"}, annotations={"kueue.x-k8s.io/pod-group-total-count": "24"})
        await api.create(_queued(one, **labels), team)
    found = await api.running(team, 24, app="ray")
    assert len({str(each["spec"].get("topologySpreadConstraints")) for each in found}) == 1
    assert all(decision(each) for each in found)
