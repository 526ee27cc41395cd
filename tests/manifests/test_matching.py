"""Which requests the shipped hooks are asked about: the selectors and conditions of both configurations, on a real API server."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from tests import deciding
from tests.builders import GPUS, Case, admission_review
from tests.controlplane.api import Api, ApiError, refusal, wait_until
from tests.controlplane.objects import deployment, job, made, pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.theft_vectors import CLAIM, CREATE, VECTORS, Vector
from tests.export.random_pods import ANNOTATIONS, debuggers, pods
from tests.export.test_random import AT_ONCE, some_of
from tests.export.world import RUNTIMES
from tests.manifests import harmless
from tests.manifests.files import HOOKS, Json, only
from tests.manifests.harmless import THIEVES
from tests.manifests.recorder import LABEL, Recorder
from tests.rules.test_contract import RULES
from tests.rules.test_tables import ROWS
from webhook.export.matching import conditions_yaml
from webhook.kube.asked import AskedPod
from webhook.policy.model import Policy
from webhook.whatif import offline

pytestmark = pytest.mark.controlplane

SHIPPED = offline.load_policy()
MUTATE, VALIDATE = "mutate.gpu-admission.io", "validate.gpu-admission.io"
OTHERS, UPDATES = "others.validate.gpu-admission.io", "updates.validate.gpu-admission.io"
FIX, TELL = "templates.mutate.gpu-admission.io", "templates.validate.gpu-admission.io"
POLICY, NAMESPACES = "policy.gpu-admission.io", "namespaces.gpu-admission.io"
CLASS = "class.gpu-admission.io/"
INSIDE, OUTSIDE = "matching-inside", "matching-outside"


@pytest.fixture(scope="module")
def recorder(applied: ControlPlane) -> Iterator[Recorder]:
    """Both configurations in force under another name, and two namespaces: one has opted in. What pods here name exists."""
    with Recorder() as found:
        hooks = [found.configuration(only(kind)) for kind in HOOKS]
        inside, outside = made("Namespace", INSIDE, labels={LABEL: "matching"}), made("Namespace", OUTSIDE)
        known = [made("RuntimeClass", name, handler=name) for name in (*RUNTIMES, "fast")]
        known += [made("PriorityClass", name, value=1) for name in ("harmless", "export-low")]
        with applied.having(*hooks, inside, outside, *known):
            yield found


@pytest.fixture
async def asked(recorder: Recorder, api: Api) -> Recorder:
    """The recorder, once every hook is in force (the API server takes up a configuration by a watch)."""

    async def all_asked() -> bool:
        await try_it(api, pod("probe"), INSIDE)
        await try_it(api, THIEVES["hostPID"], INSIDE)
        await try_it(api, deployment("probe"), INSIDE)
        await try_it(api, configmap("gpu-admission-policy"), "gpu-admission")
        await api.create(made("Namespace", "probe", labels={CLASS + "probe": ""}), dryRun="All")
        seen = {path.split("-", 1)[1] for path, _ in recorder.reviews}
        return seen == {MUTATE, VALIDATE, OTHERS, FIX, TELL, POLICY, NAMESPACES}

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
    *[(f"of-a-chart-{each['metadata']['name']}", each, []) for each in harmless.PODS],
    *[(f"without-a-gpu-{name}", pod("p", 0, **more), [OTHERS]) for name, more in SUSPICIOUS.items()],
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


def without_devices(found: Json) -> Json:
    """The same pod without limits, requests and claims."""
    spec = {key: value for key, value in found["spec"].items() if key != "resourceClaims"}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [{key: value for key, value in each.items() if key != "resources"} for each in spec[kind]]
    return {**found, "spec": spec}


ROWS_REFUSED: dict[str, list[tuple[str, Json]]] = {}
"""By the module of a rule that denies: the pods of all tables in which it finds something, each with what it shows. Pods with
GPUs, which are asked about in any case, also without them."""
for _shows, (_, _row, _, _) in [(str(each.id), each.values) for each in ROWS]:
    for _body in (_row.pod, without_devices(_row.pod)):
        _case = Case(_body, _row.context._replace(pod=AskedPod(_body, GPUS)))
        for _name, _rule in RULES.items():
            if _rule.action == "deny" and any([not found.only_warn for found in _case.findings(_rule)]):
                ROWS_REFUSED.setdefault(_name, []).append((_shows, _body))


def as_written(found: Json, name: str) -> Json:
    """A new pod, as far as the API server takes it: with the volumes that it mounts."""
    metadata = {key: found["metadata"][key] for key in ("labels", "annotations") if key in found["metadata"]}
    spec = {key: value for key, value in found["spec"].items() if key != "ephemeralContainers"}
    mounts = [mount for each in spec["containers"] for mount in each.get("volumeMounts", ())]
    spec["volumes"] = spec.get("volumes") or [{"name": each, "emptyDir": {}} for each in {m["name"] for m in mounts}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": name}, "spec": spec}


async def asked_about(asked: Recorder, api: Api, drawn: Iterable[Json], name: str) -> list[bool | None]:
    """Whether a validating webhook was asked about each new pod. None: the API server refuses it by itself."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, body: Json) -> bool | None:
        async with room:
            if await refusal(api.create(as_written(body, f"{name}-{number}"), INSIDE, dryRun="All")):
                return None
        return not {VALIDATE, OTHERS}.isdisjoint(asked.asked(f"{name}-{number}"))

    return await asyncio.gather(*[one(number, each) for number, each in enumerate(drawn)])


@pytest.mark.parametrize("name", ROWS_REFUSED)
async def test_what_a_rule_refuses_in_any_table_is_asked_about(asked: Recorder, api: Api, name: str) -> None:
    """By its shipped settings."""
    found = await asked_about(asked, api, [each for _, each in ROWS_REFUSED[name]], name.replace("_", "-"))
    assert [shows for (shows, _), seen in zip(ROWS_REFUSED[name], found, strict=True) if seen is False] == []
    tried = [seen for seen in found if seen is not None]
    assert tried or name in ("gpu_quantity",), "the API server itself refuses all of them"


def refused(body: Json, **review: Any) -> bool:
    (document,) = offline.documents(json.dumps(admission_review(body, INSIDE, **review)), "drawn")
    assert isinstance(document, offline.Document)
    found = deciding.run(document, deciding.decide_validate, SHIPPED, offline.new_state()).decision.findings
    return any([action == "deny" for _, action, _ in found])


async def test_every_pod_that_the_shipped_policy_refuses_is_asked_about(asked: Recorder, api: Api) -> None:
    drawn = some_of(pods(), 400)
    each = [*zip(drawn, map(refused, drawn), await asked_about(asked, api, drawn, "drawn"), strict=True)]
    assert [body for body, wrong, seen in each if seen is False and wrong] == []
    without_devices = [(body, wrong, seen) for body, wrong, seen in each if not asks_for_device(body)]
    assert sum(wrong for _, wrong, _ in without_devices) > 50
    # And of the others without devices no pod, but for a RuntimeClass, whose handler is not known there.
    harmless = [(body, seen) for body, wrong, seen in without_devices if not wrong]
    assert [body for body, seen in harmless if seen and "runtimeClassName" not in body["spec"]] == []


def asks_for_device(body: Json) -> bool:
    spec, annotations = body["spec"], body["metadata"].get("annotations") or {}
    named = [
        name
        for each in (*spec["containers"], *(spec.get("initContainers") or ()))
        for part in (each.get("resources") or {}).values()
        for name in part
    ]
    return (
        any(["/" in name for name in named])
        or "resourceClaims" in spec
        or any([key.startswith("gpu-") or key.endswith(".gpu-memory.request") for key in annotations])
    )


@pytest.mark.parametrize(
    "vector",
    [each for each in VECTORS if each.rule and CREATE in each.verbs and not each.guarded],
    ids=lambda each: each.what,
)
async def test_every_way_to_a_gpu_is_asked_about(asked: Recorder, api: Api, vector: Vector) -> None:
    """Those that a rule refuses, in the first kind of container."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": vector.gpus}}} if vector.gpus else {}
    volumes = [{"name": "scratch", "emptyDir": {}}, *vector.pod.get("volumes", ())]
    spec = {**vector.pod, "volumes": volumes, **(CLAIM if vector.claims else {})}
    body = pod("p", 0, container={**limits, **vector.container}, annotations=vector.annotations, **spec)
    (found,) = await asked_about(asked, api, [body], "vector")
    assert found


BASES = {gpus: pod(f"base-{gpus}", gpus, schedulingGates=[{"name": "example.com/stay"}]) for gpus in (0, 1)}


@pytest.mark.parametrize("gpus", BASES)
async def test_every_change_that_the_shipped_policy_refuses_is_asked_about(
    asked: Recorder, api: Api, gpus: int
) -> None:
    """Debuggers, which may be refused, and annotations. About a pod without devices nothing else is asked."""
    base, name = BASES[gpus], BASES[gpus]["metadata"]["name"]
    await api.create(base, INSIDE)
    for debugger in some_of(debuggers(), 150):
        new = {**base, "spec": {**base["spec"], "ephemeralContainers": [debugger]}}
        asked.reviews.clear()
        change = {"spec": {"ephemeralContainers": [debugger]}}
        how: Any = {"subresource": "ephemeralcontainers", "strategy": "strategic-merge", "dryRun": "All"}
        if not await refusal(api.patch("Pod", name, change, INSIDE, **how)):
            wanted = refused(new, name=name, operation="UPDATE", oldObject=base, subResource="ephemeralcontainers")
            assert asked.asked(name) == ([VALIDATE] if gpus else [OTHERS] if wanted else []), debugger
    for key in ANNOTATIONS:
        new = {**base, "metadata": {**base["metadata"], "annotations": {key: "1"}}}
        asked.reviews.clear()
        await api.patch("Pod", name, {"metadata": {"annotations": {key: "1"}}}, INSIDE, dryRun="All")
        wanted = refused(new, name=name, operation="UPDATE", oldObject=base) or asks_for_device(new)
        assert asked.asked(name) == ([UPDATES] if gpus or wanted else []), key


async def test_a_policy_that_refuses_more_gets_its_conditions_by_a_patch(
    asked: Recorder, applied: ControlPlane, api: Api
) -> None:
    """As docs/operations.md says."""

    def patch(policy: Policy) -> None:
        change = conditions_yaml(policy).replace("name: gpu-admission\n", "name: recorder\n")
        applied.kubectl("patch", "validatingwebhookconfiguration", "recorder", "--patch", change)

    async def seen() -> bool:
        asked.reviews.clear()
        await try_it(api, pod("later-reserved", 0, priorityClassName="harmless"), INSIDE)
        return asked.asked("later-reserved") == [OTHERS]

    assert not await seen()
    patch(Policy.load("profiles: {default: {rules: {priorityClass: {reserved: {harmless: []}}}}}"))
    try:
        await wait_until(seen, 120, "the patched conditions")
    finally:
        patch(SHIPPED)

    async def unseen() -> bool:
        return not await seen()

    await wait_until(unseen, 120, "the shipped conditions")


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


@pytest.mark.parametrize(
    "groups", [pytest.param(["system:nodes"], id="by a kubelet"), pytest.param(["teams"], id="by anybody else")]
)
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


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_a_large_pod_without_devices_is_not_refused_by_the_conditions(asked: Recorder, api: Api) -> None:
    """A condition that costs more than its budget is an error, and with Fail that refuses the pod, even if replicas answer."""
    many = {"env": [{"name": f"VARIABLE_{n}", "value": "x"} for n in range(1000)]}
    mounts = {"volumeMounts": [{"name": f"v{n}", "mountPath": f"/a/b/c/{n}"} for n in range(50)]}
    volumes = [{"name": f"v{n}", "hostPath": {"path": f"/data/{n}/a/b/c"}} for n in range(50)]
    more = [{"name": f"c{n}", "image": "i", **many, **mounts} for n in range(4)]
    annotations = {f"example.com/annotation-{n}": "x" for n in range(1000)}
    body = pod("many", 0, annotations=annotations, volumes=volumes, initContainers=more)
    assert await refusal(api.create(body, INSIDE, dryRun="All")) == ""
    assert asked.asked("many") == []
