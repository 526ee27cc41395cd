"""Which requests the shipped hooks are asked about: the selectors and conditions of both configurations, on a real API server."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from tests.controlplane.api import Api, ApiError, refusal, wait_until
from tests.controlplane.objects import deployment, job, made, pod
from tests.controlplane.plane import ControlPlane
from tests.export.random_pods import pods
from tests.export.test_random import AT_ONCE, some_of
from tests.manifests.files import HOOKS, Json, only
from tests.manifests.recorder import LABEL, Recorder
from webhook.cli import offline

pytestmark = pytest.mark.controlplane

SHIPPED = offline.load_policy()
MUTATE, VALIDATE = "mutate.gpu-admission.io", "validate.gpu-admission.io"
UPDATES = "updates.validate.gpu-admission.io"
FIX, TELL = "templates.mutate.gpu-admission.io", "templates.validate.gpu-admission.io"
POLICY, NAMESPACES = "policy.gpu-admission.io", "namespaces.gpu-admission.io"
CLASS = "class.gpu-admission.io/"
INSIDE, OUTSIDE = "matching-inside", "matching-outside"


@pytest.fixture(scope="module")
def recorder(applied: ControlPlane) -> Iterator[Recorder]:
    """Both configurations in force under another name, and two namespaces: one has opted in."""
    with Recorder() as found:
        hooks = [found.configuration(only(kind)) for kind in HOOKS]
        inside, outside = made("Namespace", INSIDE, labels={LABEL: "matching"}), made("Namespace", OUTSIDE)
        with applied.having(*hooks, inside, outside):
            yield found


@pytest.fixture
async def asked(recorder: Recorder, api: Api) -> Recorder:
    """The recorder, once every hook is in force (the API server takes up a configuration by a watch)."""

    async def all_asked() -> bool:
        await try_it(api, pod("probe"), INSIDE)
        await try_it(api, deployment("probe"), INSIDE)
        await try_it(api, configmap("gpu-admission-policy"), "gpu-admission")
        await api.create(made("Namespace", "probe", labels={CLASS + "probe": ""}), dryRun="All")
        seen = {path.split("-", 1)[1] for path, _ in recorder.reviews}
        return seen == {MUTATE, VALIDATE, FIX, TELL, POLICY, NAMESPACES}

    if not recorder.in_force:
        await wait_until(all_asked, 120, "all webhooks to be asked")
        recorder.in_force = True
    return recorder


def configmap(name: str) -> Json:
    return made("ConfigMap", name, data={"policy.yaml": "profiles: {}"})


async def try_it(api: Api, body: Json, namespace: str) -> None:
    """As a dry run. Another webhook may refuse it; ours has been asked by then, or at the same time."""
    try:
        await api.create(body, namespace, dryRun="All")
    except ApiError as error:
        if error.status == 409:
            metadata = body["metadata"] | {"namespace": namespace}
            await api.replace({**body, "metadata": metadata}, dryRun="All")
        elif "admission webhook" not in error.message:
            raise


def resources(**parts: dict[str, str]) -> Json:
    return {"resources": parts}


def cron_job(name: str, gpus: int) -> Json:
    spec = {"schedule": "@daily", "jobTemplate": {"spec": job(name, gpus=gpus)["spec"]}}
    return made("CronJob", name, spec=spec)


def replica_set(name: str, owner: str) -> Json:
    found = deployment(name, kind="ReplicaSet")
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": "1", "controller": True}
        found["metadata"]["ownerReferences"] = [reference]
    return found


HARMLESS = {"runAsUser": 1000, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
PLAIN = pod(
    "p",
    0,
    container={"env": [{"name": "PORT", "value": "8080"}], "securityContext": HARMLESS, "envFrom": []},
    annotations={"prometheus.io/scrape": "true", "kubectl.kubernetes.io/restartedAt": "now"},
    tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
    volumes=[{"name": "v", "emptyDir": {}}],
)
SUSPICIOUS: dict[str, Json] = {
    "but-a-variable": {"container": {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}},
    "but-a-priority-class": {"priorityClassName": "system-node-critical"},
    "but-a-mount": {
        "container": {"volumeMounts": [{"name": "v", "mountPath": "/run/nvidia-container-devices/0"}]},
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}
ASKED: list[tuple[str, Json, list[str]]] = [
    ("without-resources", pod("p", 0), []),
    ("gpu-limit", pod("p"), [MUTATE, VALIDATE]),
    (
        "gpu-of-an-init-container",
        pod("p", 0, initContainers=[{"name": "i", "image": "i", **resources(limits={"nvidia.com/gpu": "1"})}]),
        [MUTATE, VALIDATE],
    ),
    ("a-plain-service", PLAIN, []),
    *[(f"without-a-gpu-{name}", pod("p", 0, **more), [VALIDATE]) for name, more in SUSPICIOUS.items()],
    (
        "device-claim",
        pod("p", 0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]),
        [MUTATE, VALIDATE],
    ),
    ("deployment-without-gpu", deployment("w", gpus=0), [TELL]),
    ("replica-set-of-a-deployment", replica_set("w", "app"), []),
    ("deployment", deployment("w"), [FIX, TELL]),
    ("cron-job", cron_job("w", 1), [FIX, TELL]),
    ("replica-set-of-nobody", replica_set("w", ""), [FIX, TELL]),
]


@pytest.mark.parametrize(("name", "body", "wanted"), ASKED, ids=[row[0] for row in ASKED])
async def test_a_pod_or_a_workload_is_asked_about(
    asked: Recorder, api: Api, name: str, body: Json, wanted: list[str]
) -> None:
    for each, where in ((name, INSIDE), (f"{name}-outside", OUTSIDE)):
        await try_it(api, {**body, "metadata": {**body["metadata"], "name": each}}, where)
    assert sorted(set(asked.asked(name))) == wanted
    assert asked.asked(f"{name}-outside") == []


async def test_every_pod_in_which_a_rule_finds_something_is_asked_about(asked: Recorder, api: Api) -> None:
    """By the shipped policy. Pods that the API server refuses by itself do not matter."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, drawn: Json) -> bool:
        body = {**drawn, "metadata": {**drawn["metadata"], "name": f"drawn-{number}"}}
        (document,) = offline.documents(json.dumps(body), "drawn")
        assert isinstance(document, offline.Document)
        if not offline.run(document, offline.decide_validate, SHIPPED, offline.load_state(None)).decision.findings:
            return False
        async with room:
            if await refusal(api.create(body, INSIDE, dryRun="All")):
                return False
        assert VALIDATE in asked.asked(f"drawn-{number}"), body
        return True

    found = await asyncio.gather(*[one(number, drawn) for number, drawn in enumerate(some_of(pods(), 500))])
    assert sum(found) > 50


@pytest.mark.parametrize("where", ["gpu-admission", "kube-system"])
async def test_pods_of_the_system_and_of_our_own_namespace_are_never_asked_about(
    asked: Recorder, api: Api, where: str
) -> None:
    """Even with the label: or we could not start again once no replica runs."""
    before = (await api.get("Namespace", where))["metadata"]["labels"].get(LABEL)
    await api.patch("Namespace", where, {"metadata": {"labels": {LABEL: "default"}}})
    try:
        await asyncio.sleep(1)  # the API server sees labels of namespaces by a watch
        hardened = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        body = pod(f"in-{where}", container={"securityContext": hardened})
        body["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        await api.create(body, where, dryRun="All")
        assert asked.asked(f"in-{where}") == []
    finally:
        await api.patch("Namespace", where, {"metadata": {"labels": {LABEL: before}}})


@pytest.mark.parametrize("groups", [["system:nodes"], ["teams"]], ids=["by a kubelet", "by anybody else"])
def test_a_mirror_pod_is_not_asked_about_if_it_is_registered(
    asked: Recorder, applied: ControlPlane, groups: list[str]
) -> None:
    """The annotation alone does not make it one: anybody can write that."""
    name = f"mirror-{groups[0].split(':')[-1]}"
    body = pod(name, annotations={"kubernetes.io/config.mirror": "a"}, nodeName="node-1")
    as_whom = ["--as=system:node:node-1", *(f"--as-group={group}" for group in [*groups, "system:masters"])]
    create = ["create", f"--namespace={INSIDE}", "--dry-run=server", "-f", "-", *as_whom]
    answer = applied.kubectl(*create, input=yaml.safe_dump(body), check=False)
    wanted = {MUTATE, VALIDATE} if groups == ["teams"] else set()
    assert set(asked.asked(name)) == wanted, answer.stderr


async def test_only_what_comes_into_a_pod_later_is_asked_about_again(asked: Recorder, api: Api) -> None:
    name = "later"
    await api.create(pod(name), INSIDE)
    asked.reviews.clear()
    await api.patch("Pod", name, {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/a"]}}, INSIDE)
    await api.patch("Pod", name, {"metadata": {"finalizers": None}}, INSIDE)
    await api.patch("Pod", name, {"status": {"message": "hello"}}, INSIDE, subresource="status")
    change = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1m"}}}]}}
    with suppress(ApiError):  # a pod that does not run yet may not be resized: the hooks come before that or after
        await api.patch("Pod", name, change, INSIDE, subresource="resize", strategy="strategic-merge")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await api.create(eviction, INSIDE, name=name, subresource="eviction", dryRun="All")
    assert asked.asked(name) == []
    debugger = {"spec": {"ephemeralContainers": [{"name": "debugger", "image": "busybox"}]}}
    await api.patch("Pod", name, debugger, INSIDE, subresource="ephemeralcontainers", strategy="strategic-merge")
    assert asked.asked(name) == [VALIDATE]
    await api.patch("Pod", name, {"metadata": {"annotations": {"a": "b"}}}, INSIDE)
    assert asked.asked(name) == [UPDATES, VALIDATE]
    more: Any = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "a", "operator": "Exists"}}]
    await api.patch("Pod", name, more, INSIDE)
    assert asked.asked(name) == [UPDATES, UPDATES, VALIDATE]
    await api.delete("Pod", name, INSIDE, grace=0)


# --- Templates --------------------------------------------------------------------------------------------------------


async def test_a_workload_is_asked_about_again_only_when_its_template_changes(asked: Recorder, api: Api) -> None:
    name = "changing"
    await api.create(deployment(name, 0), INSIDE)
    asked.reviews.clear()
    await api.patch("Deployment", name, {"metadata": {"annotations": {"a": "b"}}}, INSIDE)
    await api.patch("Deployment", name, {"spec": {"replicas": 0}}, INSIDE, subresource="scale")
    await api.patch("Deployment", name, {"status": {"replicas": 0}}, INSIDE, subresource="status")
    assert asked.asked(name) == []
    await api.patch("Deployment", name, {"spec": {"replicas": 1}}, INSIDE, dryRun="All")
    assert asked.asked(name) == [TELL]
    change: Any = [
        {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "registry.example/app:2"}
    ]
    await api.patch("Deployment", name, change, INSIDE, dryRun="All")
    assert asked.asked(name) == [FIX, TELL, TELL]
    await api.delete("Deployment", name, INSIDE)


# --- The policy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "where", "wanted"),
    [
        pytest.param("another", "gpu-admission", [], id="another ConfigMap"),
        pytest.param("gpu-admission-policy", INSIDE, [], id="the same name elsewhere"),
        pytest.param("gpu-admission-policy", "gpu-admission", [POLICY], id="the policy"),
    ],
)
async def test_a_config_map_is_asked_about(asked: Recorder, api: Api, name: str, where: str, wanted: list[str]) -> None:
    asked.reviews.clear()
    await try_it(api, configmap(name), where)
    assert sorted(set(asked.asked(name))) == wanted


# --- Namespaces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["gpu-admission.io/profile", CLASS + "inference"])
async def test_a_new_namespace_is_asked_about(asked: Recorder, api: Api, label: str) -> None:
    name = f"new-{label.partition('.')[0]}"
    await api.create(made("Namespace", name, labels={label: "default"}), dryRun="All")
    assert asked.asked(name) == [NAMESPACES]


async def test_a_namespace_is_asked_about_again_only_when_a_label_of_ours_changes(asked: Recorder, api: Api) -> None:
    async def label(key: str, value: str | None, subresource: str = "") -> list[str]:
        asked.reviews.clear()
        await api.patch("Namespace", INSIDE, {"metadata": {"labels": {key: value}}}, subresource=subresource)
        return asked.asked(INSIDE)

    assert await label(CLASS + "a", "") == [NAMESPACES]
    assert await label(CLASS + "a", "") == []
    assert await label("team", "a") == []
    assert await label("team", "b", "status") == []
    assert await label(CLASS + "a", "b") == [NAMESPACES]
    assert await label(CLASS + "a", None) == []


# --- Cost -------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_a_pod_cannot_grow_out_of_the_conditions(asked: Recorder, api: Api) -> None:
    """CEL has a budget. Above it a condition is an error, and the mutating hook would be skipped."""
    padding = {"env": [{"name": "PADDING", "value": "x" * 2000}]}
    small = [
        {"name": f"c{n}", "image": "i", **padding, **resources(limits={"cpu": "1", "memory": "1Gi"})}
        for n in range(600)
    ]
    body = pod("large")
    body["spec"]["containers"] = [*small, *body["spec"]["containers"]]
    assert len(json.dumps(body)) > 1_200_000
    await try_it(api, body, INSIDE)
    assert set(asked.asked("large")) == {MUTATE, VALIDATE}
