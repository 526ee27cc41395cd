"""A GPU pod goes all the way through a real cluster: asserted on the stored and the bound pod, never on our patch."""

import pytest

from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import Json, deployment, made, pod
from tests.installed import OPTED_IN, Installed, decision, opt_in
from tests.manifests.harmless import PODS, THIEVES

pytestmark = pytest.mark.controlplane


def preferred_nodes(found: Json) -> list[str]:
    terms = found["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return [term["preference"]["matchExpressions"][0]["values"][0] for term in terms]


def comparable(found: Json) -> Json:
    """A stored pod without what differs between any two pods of one template."""
    metadata = {k: v for k, v in found["metadata"].items() if k in ("labels", "annotations", "generateName")}
    spec = {k: v for k, v in found["spec"].items() if k not in ("nodeName", "volumes")}
    for container in spec["containers"]:
        container.pop("volumeMounts", None)
    return {"metadata": metadata, "spec": spec}


async def test_pods_of_a_namespace_without_the_label_are_stored_as_without_us(
    installed: Installed, api: Api, namespace: str, nodes: MakeNodes
) -> None:
    await nodes("two-node")
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    await api.create(deployment("app", 2, tolerations=[toleration]), namespace)
    with_us = [comparable(found) for found in await api.running(namespace, 2)]
    with installed.away():
        old = {each["metadata"]["uid"] for each in await api.pods(namespace)}
        await api.delete_all("Pod", namespace)

        async def gone() -> bool:
            return old.isdisjoint(each["metadata"]["uid"] for each in await api.pods(namespace))

        await wait_until(gone, 120, "the pods to be gone")
        without_us = [comparable(found) for found in await api.running(namespace, 2)]
    assert with_us == without_us


async def test_a_deployment_with_only_a_gpu_limit_gets_every_injection_and_runs(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    names = await nodes("two-node")
    await api.create(deployment("app", 2), team)
    for found in await api.running(team, 2):
        spec = found["spec"]
        resources = spec["containers"][0]["resources"]
        assert resources["requests"]["nvidia.com/gpu"] == resources["limits"]["nvidia.com/gpu"] == "1"
        gpu_tolerations = [t for t in spec["tolerations"] if t["key"] == "nvidia.com/gpu"]
        assert gpu_tolerations == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
        assert (spec["priorityClassName"], spec["priority"]) == ("gpu-service", 50000)
        assert spec["preemptionPolicy"] == "Never", "it is guessed to be a service"
        keys = [c["topologyKey"] for c in spec["topologySpreadConstraints"]]
        assert keys[0] == "kubernetes.io/hostname"
        revision = {"pod-template-hash": found["metadata"]["labels"]["pod-template-hash"]}
        assert all(c["labelSelector"]["matchLabels"] == revision for c in spec["topologySpreadConstraints"])
        assert sorted(preferred_nodes(found)) == sorted(names)
        record = decision(found)
        assert (record["profile"], record["class"], record["strategy"]) == ("default", "service", "apart")
        assert [ranked[0] for ranked in record["nodes"]] == preferred_nodes(found)
        assert spec["nodeName"] in names


async def test_a_dead_server_stops_only_pods_with_devices_and_those_that_break_a_rule(
    installed: Installed, api: Api, team: str, namespace: str, nodes: MakeNodes
) -> None:
    """In namespaces that opted in. All others, as charts make them, are created, and may be changed and debugged."""
    await nodes("two-node")
    await api.namespace("bystander")
    await api.namespace("kube-like", OPTED_IN)
    await api.create(made("PriorityClass", "harmless", value=1, globalDefault=True))
    for member in installed.members:
        member.stop(patience=0)
    try:
        await api.create(pod("free"), "bystander")
        await api.create(pod("system", gpus=0), "kube-system", dryRun="All")
        with pytest.raises(ApiError) as refused:
            await api.create(pod("held"), "kube-like")
        assert refused.value.status == 500
        assert 'webhook "validate.gpu-admission.io"' in str(refused.value)
        for harmless in PODS:
            name = harmless["metadata"]["name"]
            await api.create(harmless, "kube-like")
            await api.patch("Pod", name, {"metadata": {"annotations": {"a": "b"}}}, "kube-like")
            debugger = {"spec": {"ephemeralContainers": [{"name": "debugger", "image": "busybox"}]}}
            how: Json = {"subresource": "ephemeralcontainers", "strategy": "strategic-merge"}
            await api.patch("Pod", name, debugger, "kube-like", **how)
        for what, thief in THIEVES.items():
            with pytest.raises(ApiError) as refused:
                await api.create(thief, "kube-like")
            assert 'webhook "others.validate.gpu-admission.io"' in str(refused.value), what
        thief = {"name": "thief", "image": "busybox", "securityContext": {"privileged": True}}
        with pytest.raises(ApiError, match=r"others\.validate"):
            await api.patch("Pod", name, {"spec": {"ephemeralContainers": [thief]}}, "kube-like", **how)
    finally:
        await api.delete("PriorityClass", "harmless")
        for member in installed.members:
            member.start()
        installed.await_ready()
        for name in ("bystander", "kube-like"):
            await api.delete("Namespace", name)
    await opt_in(api, team)
    await api.create(pod("again"), team)
