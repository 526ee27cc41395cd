"""What pods get that say little of themselves: never less than without the webhook. On the stored and the bound pod."""

from typing import Any

import pytest

from tests.controlplane.api import Api, ApiError, refusal, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import Json, deployment, job, made, pod
from tests.installed import decision
from webhook.nodes.usage import is_unschedulable

pytestmark = pytest.mark.controlplane

ASKED = {"workload-type": "training"}


def unit(found: Json) -> list[str]:
    result: list[str] = decision(found).get("units", {}).get("priorityClass", [])
    return result


async def known(api: Api, team: str, result: str, priority: int = 0) -> Json:
    """The stored pod of a workload that says nothing, once the webhook and the API server know what the test has made."""

    async def seen() -> Json | None:
        try:
            found = await api.create(pod("one"), team, dryRun="All")
        except ApiError:  # refused by a quota of which the webhook has not heard yet
            return None
        return found if unit(found)[:1] == [result] and found["spec"]["priority"] == priority else None

    return await wait_until(seen, 120, result)


async def test_a_pod_takes_the_place_of_a_pause_pod_as_without_us(api: Api, team: str, nodes: MakeNodes) -> None:
    """A pause pod of negative priority keeps a node for pods to come: the documented way to overprovision."""
    await nodes([node("first", 1)])
    pause = made("PriorityClass", "overprovisioning", value=-10)
    async with api.having(pause):
        await api.create(deployment("pause", priorityClassName="overprovisioning"), team)
        await api.running(team, 1, app="pause")
        found = await known(api, team, "preempts")
        assert "priorityClassName" not in found["spec"]
        assert any('"gpu-development" is a guess and is not given' in each for each in found.warnings)
        await api.create(deployment("chat"), team)
        (chat,) = await api.running(team, 1, app="chat")
        assert chat["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
        asked = await api.create(pod("asked", labels=ASKED), team, dryRun="All")
        assert asked["spec"]["priorityClassName"] == "gpu-training"
        await api.delete_all("Deployment", team)


async def test_a_pod_takes_the_place_of_a_pause_pod_that_came_while_it_waited(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    """So a PriorityClass of which no pod is there yet is enough for no guess."""
    await nodes([node("first", 2)])
    async with api.having(made("PriorityClass", "overprovisioning", value=-10)):
        await known(api, team, "preempts")
        await api.create(pod("holds"), team)
        await api.running(team, 1, app="holds")
        await api.create(deployment("chat", 1, 2), team)

        async def waits() -> bool:
            return any(is_unschedulable(each) for each in await api.pods(team))

        await wait_until(waits, 120, "the scheduler to find no node")
        await api.create(deployment("pause", priorityClassName="overprovisioning"), team)
        await api.running(team, 1, app="pause")
        await api.delete("Pod", "holds", team, grace=0)
        await api.running(team, 1, app="chat")
        await api.delete_all("Deployment", team)


@pytest.mark.parametrize(
    ("kind", "restart", "wanted"),
    [
        pytest.param("CloneSet", "Always", "gpu-service", id="that run on"),
        pytest.param("TaskRun", "Never", "gpu-training", id="that finish"),
        pytest.param("VirtualMachineInstance", "Never", "gpu-service", id="that is a machine"),
    ],
)
async def test_pods_of_controllers_whose_templates_are_not_known(
    api: Api, team: str, nodes: MakeNodes, kind: str, restart: str, wanted: str
) -> None:
    await nodes([node("first", 1)])
    await known(api, team, "set", 1000)
    found = await api.create(pod("one", owned_by=kind, restartPolicy=restart), team, dryRun="All")
    assert found["spec"]["priorityClassName"] == wanted


async def test_only_pods_for_which_the_scheduler_has_a_default_spread_get_one(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    """Those of a ReplicaSet. One of a Job's pods, or of nobody's, would select nothing, and switch the default off."""
    await nodes([node("first", 8), node("second", 8)])
    await api.create(pod("bare"), team)
    await api.create(job("train", 2), team)
    await api.create(deployment("chat", 2), team)
    found = await api.running(team, 5)
    assert all(decision(each)["nodes"] for each in found)
    spread = [each["metadata"]["labels"]["app"] for each in found if "topologySpreadConstraints" in each["spec"]]
    assert spread == ["chat", "chat"]


async def test_a_cluster_that_may_grow_from_zero_says_nothing_about_gpus_that_are_on_no_node(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    """A node of a cloud is a sign of an autoscaler. Nor does it of a pool that is empty beside one that is not."""
    asked = deployment("chat", labels={"workload-type": "inference"})
    of_pool = deployment("pool", 1, 8, nodeSelector={"karpenter.sh/nodepool": "h100"})

    async def told(asked: Json = asked) -> list[str]:
        return [each.partition(":")[0] for each in (await api.create(asked, team, dryRun="All")).warnings]

    async def without() -> bool:
        return "gpuFits" in await told()

    async def grown() -> bool:
        return "gpuFits" not in await told()

    await wait_until(without, 120, "the webhook to know no node with GPUs")
    await nodes([node("silent", 0, labels={"nvidia.com/gpu.present": "true"})])

    async def sent_to_the_plugin() -> bool:
        said = (await api.create(asked, team, dryRun="All")).warnings
        return any(["silent has GPUs by its labels" in each and "the device plugin there" in each for each in said])

    await wait_until(sent_to_the_plugin, 120, "the webhook to know the node whose device plugin is silent")
    await nodes([node("cloud", 0, provider="gce://project/zone/cloud")])
    await wait_until(grown, 120, "the webhook to know the node of a cloud")
    await nodes([node("other", 4, provider="gce://project/zone/other")])

    async def chosen() -> bool:
        return "affinity" in (await api.create(pod("one"), team, dryRun="All"))["spec"]

    await wait_until(chosen, 120, "the webhook to know the node with GPUs")
    assert "gpuFits" not in await told(of_pool)


def scoped(operator: str, *values: str) -> Json:
    scope: dict[str, Any] = {"scopeName": "PriorityClass", "operator": operator}
    scope |= {"values": [*values]} if values else {}
    return made("ResourceQuota", "scoped", spec={"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [scope]}})


HIGH = made("PriorityClass", "everyday", value=500000, globalDefault=True)


async def test_a_pod_is_not_below_the_global_default(api: Api, team: str, nodes: MakeNodes) -> None:
    await nodes([node("first", 1)])
    async with api.having(HIGH):
        found = await known(api, team, "lower", 500000)
        assert found["spec"]["priorityClassName"] == "everyday"
        asked = await api.create(pod("asked", labels=ASKED), team, dryRun="All")
        assert asked["spec"]["priorityClassName"] == "gpu-training"


@pytest.mark.parametrize(
    "quota",
    [
        pytest.param(scoped("Exists"), id="of all classes"),
        pytest.param(scoped("In", "gpu-development"), id="of the class that is guessed"),
    ],
)
async def test_a_quota_that_counts_pods_by_their_class_refuses_none_for_a_guess(
    quota: Json, api: Api, team: str, nodes: MakeNodes
) -> None:
    await nodes([node("first", 1)])
    async with api.having(quota, namespace=team):
        await known(api, team, "quota")

        async def counted() -> bool:
            return bool((await api.get("ResourceQuota", "scoped", team)).get("status", {}).get("hard"))

        await wait_until(counted, 120, "the quota to be in force")
        found = await api.create(pod("one"), team)
        assert "priorityClassName" not in found["spec"]


async def test_no_guess_takes_a_pod_out_of_the_quota_of_the_global_default(api: Api, team: str) -> None:
    default = made("PriorityClass", "everyday", value=1, globalDefault=True)
    async with api.having(default), api.having(scoped("In", "everyday"), namespace=team):

        async def refused() -> bool:
            return "exceeded quota: scoped" in await refusal(api.create(pod("one"), team, dryRun="All"))

        await wait_until(refused, 120, "the quota to count the pod as without us")


async def test_a_container_with_0_gpus_starts_beside_gpu_nodes_and_sees_none(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    await nodes([node("gpus", 1, taints=[GPU_TAINT]), node("plain", 0)])
    made_by_chart = pod("querynode", 0, container={"resources": {"limits": {"nvidia.com/gpu": "0"}}})
    created = await api.create(made_by_chart, team)
    (found,) = await api.running(team, 1)
    assert found["spec"]["nodeName"] == "plain"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in found["spec"]["containers"][0]["env"]
    assert not [each for each in found["spec"]["tolerations"] if each["key"].startswith("nvidia.com")]
    assert "priorityClassName" not in found["spec"]
    assert "affinity" not in found["spec"]
    assert not decision(found).get("nodes")
    assert [each.partition(":")[0] for each in created.warnings] == ["gpuZero"]
