"""Kueue: it ranks and groups pods by what is in them."""

import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.objects import Json, job, made, pod
from tests.e2e.others.room import Room, manager
from tests.installed import decision, opt_in

pytestmark = pytest.mark.others
OTHERS = {
    "kueue": manager(
        "config.kueue.x-k8s.io/v1beta2",
        integrations={"frameworks": ["batch/job", "pod"]},
        # Without certificates of its own it reads one for its metrics from /etc: it makes some, for webhooks that are not there.
        internalCertManagement={"enable": True, "webhookServiceName": "nowhere"},
        featureGates={"VisibilityOnDemand": False},  # an API of its own, with a certificate in /visibility
    )
}
_QUEUE, _GROUP = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/pod-group-name"
_GPUS = 48


class Team(NamedTuple):
    """A namespace. `ours`: it has opted in."""

    name: str
    ours: bool


@pytest_asyncio.fixture
async def api(room: Room) -> AsyncIterator[Api]:
    async with Api.of(room.plane.kubeconfig) as client, clusters.applied(client, clusters.cluster("6x8")):
        yield client
    room.check()


@pytest_asyncio.fixture
async def beside(api: Api, team: Team) -> AsyncIterator[str]:
    """A namespace that has not opted in, and shares the team's GPUs."""
    name = await api.namespace(f"beside-{uuid.uuid4().hex[:6]}")
    await api.create(made("LocalQueue", "queue", spec={"clusterQueue": team.name}), name)
    yield name
    await api.delete_all("Job", name, propagationPolicy="Background")
    await remove_namespace(api, name)


@pytest_asyncio.fixture(params=[True, False], ids=["with us", "without us"])
async def team(api: Api, request: pytest.FixtureRequest) -> AsyncIterator[Team]:
    """With a queue for all GPUs, where a higher priority preempts."""
    name = await api.namespace(f"team-{uuid.uuid4().hex[:6]}")
    quota = {"name": "nvidia.com/gpu", "nominalQuota": _GPUS}
    resources = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": name, "resources": [quota]}]}
    spec: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": [resources]}
    spec["preemption"] = {"withinClusterQueue": "LowerPriority"}
    async with api.having(made("ResourceFlavor", name, spec={}), made("ClusterQueue", name, spec=spec)):
        await api.create(made("LocalQueue", "queue", spec={"clusterQueue": name}), name)
        if request.param:
            await opt_in(api, name)
        yield Team(name, request.param)
        await api.delete_all("Job", name, propagationPolicy="Background")
        for each in await api.pods(name):  # else those of a group stay, since Kueue waits for others in their place
            with suppress(ApiError):  # those of a Job are going
                await api.patch("Pod", each["metadata"]["name"], {"metadata": {"finalizers": None}}, name)
        await remove_namespace(api, name)


def _queued(found: Json, **labels: str) -> Json:
    found["metadata"].setdefault("labels", {}).update({_QUEUE: "queue", **labels})
    return found


def _notebook() -> Json:
    """A pod that gets a class by a guess where nobody else ranks it."""
    return pod("notebook", container={"image": "jupyter/scipy-notebook:1"})


def _added(found: Json) -> Json:
    """The class, the nodes and the constraints of a pod that has none by its author."""
    fields = ("priorityClassName", "priority", "affinity", "topologySpreadConstraints")
    return {field: value for field in fields if (value := found["spec"].get(field))}


@pytest.mark.parametrize("own", [True, False], ids=["of its namespace", "of one that has not opted in"])
async def test_a_notebook_does_not_evict_a_job_by_a_guess(api: Api, team: Team, beside: str, own: bool) -> None:
    """Of the same priority as without us: it waits until there is room."""
    of_job = team.name if own else beside
    await api.create(_queued(job("trainer", 6, 8)), of_job)
    before = await api.running(of_job, 6, app="trainer")
    await api.create(_queued(_notebook()), team.name)

    async def workload(kind: str) -> Json:
        found = await api.list("Workload", of_job if kind == "Job" else team.name)
        return next((each for each in found if each["metadata"]["ownerReferences"][0]["kind"] == kind), {})

    async def considered() -> bool:
        found = await workload("Pod")
        conditions = {c["type"]: c for c in found.get("status", {}).get("conditions", ())}
        assert found, "no Workload for the notebook"
        assert "insufficient" in str(conditions.get("QuotaReserved")), conditions  # else its queue is not known yet
        return True

    await wait_until(considered, 120, "Kueue to have looked for room for the notebook")
    assert (await workload("Pod"))["spec"].get("priority", 0) == 0
    trainer = await workload("Job")
    assert not [c for c in trainer["status"]["conditions"] if c["type"] in ("Evicted", "Preempted")]
    after = await api.running(of_job, 6, app="trainer")
    assert {each["metadata"]["uid"] for each in after} == {each["metadata"]["uid"] for each in before}
    await api.delete_all("Job", of_job, propagationPolicy="Background")
    (found,) = await api.running(team.name, 1, app="notebook")
    assert not _added(found)
    assert bool(decision(found)) == team.ours


async def test_a_group_of_replicas_that_were_made_one_by_one_is_admitted(api: Api, team: Team) -> None:
    """Each has labels of its own, for example its index. What we add is equal in all, since Kueue takes 8 kinds at most."""
    made_by = await api.create(made("ConfigMap", "ray"), team.name)
    owner = {key: made_by["metadata"][key] for key in ("name", "uid")}
    for index in range(24):
        labels = {"app": "ray", "workload-type": "inference", "ray.io/worker-group-replica-index": str(index)}
        one = pod(f"worker-{index}", labels=labels, annotations={"kueue.x-k8s.io/pod-group-total-count": "24"})
        one["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "controller": True, **owner}]
        await api.create(_queued(one, **{_GROUP: "ray"}), team.name)
    found = await api.running(team.name, 24, app="ray")
    assert {bool(decision(each)) for each in found} == {team.ours}
    assert len({each["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] for each in found}) == 1


async def test_what_the_first_call_wrote_goes_when_kueue_takes_the_pod(api: Api, team: Team) -> None:
    """In a namespace with a default queue its webhook, which comes after ours, writes the label of the queue."""
    await api.create(made("LocalQueue", "default", spec={"clusterQueue": team.name}), team.name)

    async def known() -> bool:
        tried = await api.create(_notebook(), team.name, dryRun="All")
        return _QUEUE in tried["metadata"]["labels"]

    await wait_until(known, 120, "Kueue to know the default queue")
    stored = await api.create(_notebook(), team.name)
    assert [gate["name"] for gate in stored["spec"]["schedulingGates"]] != []
    (found,) = await api.running(team.name, 1, app="notebook")
    assert not _added(stored), stored
    assert not _added(found)
    assert bool(decision(found)) == team.ours


async def test_a_pod_that_another_cluster_sends_is_not_changed_again(api: Api, team: Team) -> None:
    """MultiKueue copies a pod with its Workload from the cluster of the queue. Kueue ends a Workload whose pod has other
    containers, so both clusters have us, or none."""
    label = {"kueue.x-k8s.io/prebuilt-workload-name": "sent"}
    helper = {"name": "helper", "image": "helper:1"}
    asked = pod(
        "remote", containers=[*pod("remote", 4)["spec"]["containers"], helper], automountServiceAccountToken=False
    )
    there = await api.create(asked, team.name, dryRun="All")
    metadata = {key: there["metadata"][key] for key in ("name", "labels", "annotations") if key in there["metadata"]}
    sent = _queued(made("Pod", spec=there["spec"]) | {"metadata": metadata}, **label)
    pod_sets = [{"name": "main", "count": 1, "template": {"metadata": metadata, "spec": there["spec"]}}]
    await api.create(made("Workload", "sent", spec={"queueName": "queue", "podSets": pod_sets}), team.name)
    await api.create(sent, team.name)

    async def runs() -> bool:
        found = await api.get("Workload", "sent", team.name)
        if ended := [c for c in found.get("status", {}).get("conditions", ()) if c["type"] == "Finished"]:
            pytest.fail(f"Kueue has ended the Workload: {ended[0]['message']}")
        return [each["status"].get("phase") for each in await api.pods(team.name)] == ["Running"]

    await wait_until(runs, 120, "the pod to run")
