"""Who is served first, and who may preempt: the class of workload, the priority and the label of the namespace together.

What the guard of the API server refuses is in tests/manifests/test_preemption.py.
"""

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes, remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, deployment, job, pod, workload
from tests.installed import decision, opt_in

pytestmark = pytest.mark.controlplane

CLASS, PREEMPTS = "class.gpu-admission.io/", "PreemptLowerPriority"
CRITICAL = {"workload-type": "inference-critical"}


def _rank(found: Json) -> tuple[int, str]:
    return found["spec"]["priority"], found["spec"]["preemptionPolicy"]


async def test_a_pod_takes_the_gpu_of_another_tenants_training_only_by_its_label(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    await nodes([node("first", 1)])
    other = await api.namespace(f"{team}-other")
    try:
        await opt_in(api, other)
        await api.create(job("train"), other)
        (trainer,) = await api.running(other, 1)
        await api.create(deployment("guessed"), team)
        await api.create(deployment("labelled", labels={"workload-type": "inference"}), team)
        (serving,) = await api.running(team, 1)
        assert serving["metadata"]["labels"]["app"] == "labelled"
        assert trainer["metadata"]["uid"] not in [each["metadata"]["uid"] for each in await api.pods(other)]
    finally:
        await remove_namespace(api, other)


async def test_gpus_that_were_freed_for_a_preemptor_are_given_to_nobody_else(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    """One of two that it preempted has ended, so four GPUs are free there while it waits for the other."""
    await nodes([node("first", 8)])
    trains = {"workload-type": "training"}
    for name, metadata in (("ends", {}), ("stays", {"finalizers": ["example.com/hold"]})):
        made = pod(name, 4, labels=trains)
        await api.create({**made, "metadata": made["metadata"] | metadata}, team)
        await api.bound(team, name)
    try:
        await api.create(pod("urgent", 8, labels={"workload-type": "inference"}), team)

        async def nominated() -> bool:
            found = {each["metadata"]["name"]: each for each in await api.pods(team)}
            return "ends" not in found and found["urgent"]["status"].get("nominatedNodeName") == "first"

        await wait_until(nominated, 120, "one victim to end and the other to stay")
        await nodes([node("second", 4)])

        async def elsewhere() -> list[str]:
            made = await api.create(pod("other", 4, labels=trains), team, dryRun="All")
            return [name for name, *_ in decision(made).get("nodes", ())]

        await wait_until(elsewhere, 120, "the webhook to see the second node")
        assert await elsewhere() == ["second"]
        await api.create(pod("other", 4, labels=trains), team)
        assert (await api.bound(team, "other"))["spec"]["nodeName"] == "second"
    finally:
        await api.patch("Pod", "stays", {"metadata": {"finalizers": None}}, team)
    assert (await api.bound(team, "urgent"))["spec"]["nodeName"] == "first"


async def test_only_pods_of_an_entitled_namespace_are_critical(api: Api, team: str) -> None:
    made = await api.create(pod("one", labels=CRITICAL), team, dryRun="All")
    assert made["spec"]["priorityClassName"] == "gpu-development"
    assert any("is not entitled to class inference-critical" in each for each in made.warnings)
    await api.patch("Namespace", team, {"metadata": {"labels": {f"{CLASS}inference-critical": ""}}})

    async def entitled() -> bool:
        return _rank(await api.create(pod("one", labels=CRITICAL), team, dryRun="All")) == (200000, PREEMPTS)

    await wait_until(entitled, 120, "the API server and the webhook to see the label")


def _made_by(kind: str, name: str, **labels: str) -> Json:
    """A pod as the operator of that kind, which does not run here, creates it."""
    reference = {"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    made = pod(name, labels=labels)
    made["metadata"]["ownerReferences"] = [reference]
    return made


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        pytest.param(_made_by("RayCluster", "trains"), "gpu-training", id="a RayCluster"),
        pytest.param(_made_by("RayCluster", "serves", **{"ray.io/serve": "true"}), "gpu-service", id="a RayService"),
        pytest.param(_made_by("HyperPodPyTorchJob", "hyperpod"), "gpu-training", id="a HyperPodPyTorchJob"),
        pytest.param(pod("elastic", labels={"elasticjob.dlrover/name": "e"}), "gpu-training", id="an ElasticJob"),
    ],
)
async def test_the_pods_of_an_operator_have_the_class_of_the_kind_that_it_made_them_for(
    api: Api, team: str, made: Json, wanted: str
) -> None:
    assert (await api.create(made, team))["spec"]["priorityClassName"] == wanted


async def test_a_notebook_is_development_and_the_pods_of_a_daemon_set_are_a_service(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    await nodes([node("first", 4)])
    for name, kind, labels, more in (
        ("other", "StatefulSet", {}, {"serviceName": "other"}),
        ("anna", "StatefulSet", {"notebook-name": "anna"}, {"serviceName": "anna"}),
        ("agent", "DaemonSet", {}, {}),
    ):
        of = {"selector": {"matchLabels": {"app": name}}, **more}
        await api.create(workload(kind, name, labels=labels, of=of, tolerations=[{"operator": "Exists"}]), team)
    found = {each["metadata"]["labels"]["app"]: each for each in await api.running(team, 3)}
    classes = {name: each["spec"]["priorityClassName"] for name, each in found.items()}
    assert classes == {"other": "gpu-service", "anna": "gpu-development", "agent": "gpu-service"}
