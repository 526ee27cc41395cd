"""Pods that get GPUs by DRA, on the real scheduler: all of them run, each on the node that was chosen for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from bench import devices as load
from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.clusters import applied
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, made
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import SERVES_EXTENDED_RESOURCES
from tests.installed import Installed, decision, opt_in, tried
from webhook.cli.cluster.load import load as read_cluster
from webhook.kube.kinds import KINDS
from webhook.whatif.answers import KINDS as KINDS_OF_PENDING
from webhook.whatif.answers import answers
from webhook.whatif.offline import load_policy

pytestmark = pytest.mark.controlplane
SIZES = (8, 8, 4, 4, 2, 2)
PODS = {1: 4, 2: 2, 4: 1, 8: 2}
"""Number of pods by their GPUs: 28 of 28 GPUs, so that one pod on a wrong node leaves another one without."""


def where_served(test: Callable[..., Any]) -> Callable[..., Any] | None:
    """A test of what is behind a gate in Kubernetes 1.34: it is left out there."""
    return test if SERVES_EXTENDED_RESOURCES else None


@pytest.fixture
async def devices(api: Api) -> AsyncIterator[None]:
    names = [f"dra-{number}" for number in range(len(SIZES))]
    objects = [load.slice_of(name, gpus, "templates") for name, gpus in zip(names, SIZES, strict=True)]
    objects += load.classes("templates")
    async with applied(api, [node(name, 0, cpu="192", memory="2Ti") for name in names]):
        await asyncio.gather(*[api.create(each) for each in objects])
        try:
            yield
        finally:
            for each in objects:
                await api.delete(each["kind"], each["metadata"]["name"])


@pytest.mark.parametrize("ask", ["templates", *(["extended"] if SERVES_EXTENDED_RESOURCES else [])])
async def test_a_mixed_burst_leaves_no_gpu_pending(
    installed: Installed, api: Api, team: str, devices: None, ask: str
) -> None:
    await asyncio.gather(*[api.create(load.template(gpus, ask), team) for gpus in PODS])

    async def known() -> bool:  # once the watches have brought all slices and all templates
        free = {name: value for name, value in installed.metrics().items() if load.DRIVER in name and "free" in name}
        assert sum(free.values()) == sum(SIZES), free
        for gpus in PODS:
            probe = load.workload(gpus, "Job", 1, gpus, ask, "100m")["spec"]["template"]
            probe |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}}
            assert (await tried(api, probe, team)).get("nodes"), gpus
        return True

    await wait_until(known, 120, "the webhook to know the devices")
    mixed = [(gpus, number) for gpus, count in PODS.items() for number in range(count)]
    await asyncio.gather(
        *[api.create(load.workload(gpus * 10 + number, "Job", 1, gpus, ask, "100m"), team) for gpus, number in mixed]
    )
    found = await api.running(team, len(mixed), within=180)
    records = [decision(pod) for pod in found]
    assert [pod["spec"]["nodeName"] for pod in found] == [record["nodes"][0][0] for record in records]
    asked = sorted(record["asked"][f"devices/{load.DRIVER}"] for record in records)
    assert asked == sorted(1000 * gpus for gpus, _ in mixed)
    claims: list[Any] = await api.list("ResourceClaim", team)
    results = [result["device"] for claim in claims for result in claim["status"]["allocation"]["devices"]["results"]]
    assert len(results) == sum(SIZES)


@where_served
async def test_devices_that_a_taint_rule_selects_are_left_to_pods_that_tolerate_it(
    installed: Installed, api: Api, team: str, devices: None
) -> None:
    """Both nodes of 2 GPUs are tainted, and one GPU of a node of 4: the pod for 4 goes to the other one."""
    taint = {"key": "example.com/xid", "effect": "NoSchedule"}
    selectors = [{"pool": "dra-2", "device": "gpu-3"}]
    selectors += [{"driver": load.DRIVER, "pool": name} for name in ("dra-4", "dra-5")]
    rules = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": f"sick-{number}"},
            "spec": {"deviceSelector": selector, "taint": taint},
        }
        for number, selector in enumerate(selectors)
    ]
    tolerates = [{"key": taint["key"], "operator": "Exists"}]
    templates = [claim_template("two", NVIDIA, 2), claim_template("four", NVIDIA, 4)]
    templates.append(claim_template("tolerant", NVIDIA, 2, tolerations=tolerates))
    await asyncio.gather(*[api.create(each, team) for each in templates])
    path = KINDS["DeviceTaintRule"].path()
    for rule in rules:
        await api.request("POST", path, rule)
    try:

        async def chosen(name: str) -> list[str]:
            tried = await api.create(claiming_pod(name), team, dryRun="All")
            return [node for node, *_ in decision(tried).get("nodes", ())][:1]

        async def seen() -> bool:  # once the watches have brought all rules and templates
            return await chosen("two") == ["dra-2"] and bool(await chosen("four") and await chosen("tolerant"))

        await wait_until(seen, 120, "the rules to keep pods away")
        for name in ("two", "four", "tolerant"):
            await api.create(claiming_pod(name) | {"metadata": {"name": name}}, team)
        found = {pod["metadata"]["name"]: pod for pod in await api.running(team, 3)}
    finally:
        for rule in rules:
            await api.request("DELETE", f"{path}/{rule['metadata']['name']}")
    at = {name: pod["spec"]["nodeName"] for name, pod in found.items()}
    assert at == {name: decision(pod)["nodes"][0][0] for name, pod in found.items()}
    assert (at["two"], at["four"]) == ("dra-2", "dra-3")
    assert at["tolerant"] in ("dra-2", "dra-4", "dra-5"), "without a toleration only the nodes of 8 are left"


@where_served
async def test_devices_that_must_differ_are_found_where_they_do(
    installed: Installed, api: Api, team: str, devices: None
) -> None:
    """The GPUs of dra-4 are on one card, those of dra-5 on two."""
    for name, cards in (("dra-4", (0, 0)), ("dra-5", (0, 1))):
        spec = load.slice_of(name, 2, "templates")["spec"]
        for each, card in zip(spec["devices"], cards, strict=True):
            each["attributes"]["card"] = {"int": card}
        spec["pool"]["generation"] = 2
        await api.patch("ResourceSlice", name, {"spec": spec})
    template = claim_template("apart", NVIDIA, 2)
    template["spec"]["spec"]["devices"]["constraints"] = [{"distinctAttribute": f"{NVIDIA}/card"}]
    await api.create(template, team)

    async def decided() -> Json | None:  # once the watch has brought the slices
        record = decision(await api.create(claiming_pod("apart"), team, dryRun="All"))
        return record if record.get("nodes") else None

    await wait_until(decided, 120, "a node with devices that differ")
    await api.create(claiming_pod("apart"), team)
    (pod,) = await api.running(team, 1)
    assert [name for name, *_ in decision(pod)["nodes"]] == [pod["spec"]["nodeName"]] == ["dra-5"]


async def test_the_taints_of_nodes_with_gpus_by_dra_alone_are_tolerated(
    installed: Installed, api: Api, team: str
) -> None:
    objects = [load.slice_of("dra-tainted", 1, "templates"), *load.classes("templates")]
    async with applied(api, [node("dra-tainted", 0, taints=["sku=gpu:NoSchedule"])]), api.having(*objects):
        await api.create(load.template(1, "templates"), team)

        async def decided() -> bool:  # once the watches have brought the node, its slice and the template
            return bool((await tried(api, claiming_pod("gpus-1"), team)).get("nodes"))

        await wait_until(decided, 120, "a node to be chosen")
        await api.create(claiming_pod("gpus-1"), team)
        (found,) = await api.running(team, 1)
        assert found["spec"]["nodeName"] == "dra-tainted"
        assert "sku" in [each.get("key") for each in found["spec"]["tolerations"]]


async def test_what_a_claim_asks_for_is_checked_where_it_is_written_and_in_the_pod(
    installed: Installed, api: Api, team: str, devices: None
) -> None:
    """Shipped policy: 16 devices at most. The API server itself keeps `adminAccess` to namespaces that are labelled for it."""
    refused = await refusal(api.create(load.template(17, "templates"), team))
    assert "spec.spec.devices.requests[0]: saw 17 in request" in refused
    assert "[gpuLimit]" in refused
    forged = load.template(17, "templates")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "u", "controller": True}
    forged["metadata"]["ownerReferences"] = [owner]
    assert "[gpuLimit]" in await refusal(api.create(forged, team))
    admin = load.template(1, "templates")
    admin["spec"]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    assert "resource.kubernetes.io/admin-access" in await refusal(api.create(admin, team))
    await api.patch("Namespace", team, {"metadata": {"labels": {"gpu-admission.io/profile": None}}})

    async def stored() -> bool:  # once the API server has seen the change of the namespace
        return not await refusal(api.create(load.template(17, "templates"), team))

    await wait_until(stored, 120, "a claim that nobody looks at to be stored")
    await opt_in(api, team)
    pod = load.workload(1, "Job", 1, 17, "templates", "100m")["spec"]["template"]
    pod |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}}

    async def seen() -> str:  # once the watch has brought the template
        return await refusal(api.create(pod, team, dryRun="All"))

    words = await wait_until(seen, 120, "the pod to be refused")
    await api.create(made("ResourceClaim", "nine", spec=load.template(9, "templates")["spec"]["spec"]), team)
    await api.create(load.template(8, "templates"), team)
    twice, with_others = claiming_pod(), claiming_pod("gpus-8")
    for entries in (twice["spec"]["resourceClaims"], with_others["spec"]["resourceClaims"]):
        entries += [{"name": f"n{n}", "resourceClaimName": "nine"} for n in range(2)]

    async def summed() -> bool:
        return "saw 17 GPUs in the whole pod" in await refusal(api.create(with_others, team, dryRun="All"))

    await wait_until(summed, 120, "the sum of a claim and a template")
    assert not await refusal(api.create(twice, team, dryRun="All")), "one claim, named twice"
    assert 'spec.resourceClaims[0]: saw 17 in request "gpu" of template "gpus-17"' in words


def claim_template(name: str, of: str, count: int, **more: Any) -> Json:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": of, "count": count, **more}}]
    return made("ResourceClaimTemplate", name, spec={"spec": {"devices": {"requests": requests}}})


def claiming_pod(*templates: str, **limits: str) -> Json:
    entries = [{"name": f"c{n}", "resourceClaimTemplateName": name} for n, name in enumerate(templates)]
    uses = {"claims": [{"name": each["name"]} for each in entries], "limits": limits, "requests": {"cpu": "1"}}
    spec = {"containers": [{"name": "main", "image": "app", "resources": uses}], "resourceClaims": entries}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tries"}, "spec": spec}


NVIDIA = load.DRIVER


async def test_pending_names_the_quota_that_keeps_a_claim_from_being_made(
    control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    """Of a template by the controller, of an extended resource by the scheduler."""
    ask = "extended" if SERVES_EXTENDED_RESOURCES else "templates"
    devices = f"{NVIDIA}.deviceclass.resource.k8s.io/devices"
    hard = made("ResourceQuota", "gpus", spec={"hard": {devices: "2"}})
    # Devices for the pods of both rounds: what the scheduler holds for a pod that it could not bind is not free at once, and no
    # event tells those that wait for it (its plugin is asked about claims and slices only; else again after five minutes).
    objects = [load.slice_of("dra-q", 16, ask), *load.classes(ask)]
    async with applied(api, [node("dra-q", 0, cpu="192", memory="2Ti")]), api.having(*objects):
        await api.create(hard, namespace)

        async def counts(most: str) -> bool:  # what admission compares with is the status
            return (await api.get("ResourceQuota", "gpus", namespace)).get("status", {}).get("hard") == {devices: most}

        await wait_until(partial(counts, "2"), 120, "the quota to count")
        await api.create(claim_template("three", NVIDIA, 3), namespace)
        pods = {"claims": claiming_pod("three")}
        if SERVES_EXTENDED_RESOURCES:
            pods["extended"] = claiming_pod(**{"nvidia.com/gpu": "3"})
        for name, pod in pods.items():
            await api.create(pod | {"metadata": {"name": name}}, namespace)

        async def answered() -> dict[str, str] | None:
            snapshot = await asyncio.to_thread(read_cluster, control_plane.kubeconfig, None, KINDS_OF_PENDING)
            found = {each.name: each.causes[0] for each in answers(snapshot, load_policy(), namespace)}
            quotas = {name: cause.text for name, cause in found.items() if cause.cause == "quotaExceeded"}
            return quotas if quotas.keys() == pods.keys() else None

        texts = await wait_until(answered, 120, "an answer with the quota", every=1)
        numbers = f"quota gpus: {devices}=0 used, {devices}=3 asked for, {devices}=2 at most"
        assert texts["claims"] == f"no ResourceClaim was made of template three: {numbers}"
        if SERVES_EXTENDED_RESOURCES:
            assert texts["extended"] == f"the scheduler could not create its ResourceClaim: {numbers}"
        for name in pods:  # made again below, since both controllers wait longer after each failure
            await api.delete("Pod", name, namespace, grace=0)
        await api.patch("ResourceQuota", "gpus", {"spec": {"hard": {devices: "6"}}}, namespace)
        await wait_until(partial(counts, "6"), 120, "the new quota to count")
        for name, pod in pods.items():
            await api.create(pod | {"metadata": {"name": f"{name}-again"}}, namespace)
        await api.running(namespace, len(pods))
