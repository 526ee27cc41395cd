"""`gpu-admission doctor` on a real API server: each thing that is broken is named by its check, and is well again when corrected."""

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.cli.objects import call
from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import Json, made, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs
from tests.controlplane.settings import address_of_this_machine
from tests.installed import NAMESPACE, ROOT, SHIPPED, Installed, opt_in
from tests.manifests.files import only
from webhook.cli.cluster.load import load
from webhook.cli.doctor import READ, results
from webhook.tls.issue import make_ca

pytestmark = pytest.mark.controlplane

MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
LOOK = 0.3
"""Seconds between two looks: each reads the whole cluster."""
POLICY, SECRET, TEAM = "gpu-admission-policy", "gpu-admission-tls", "team"


class Scene(NamedTuple):
    plane: ControlPlane
    webhook: Installed
    api: Api

    async def found(self) -> dict[str, list[tuple[str, str]]]:
        """What doctor says now: states and texts by check."""
        snapshot = await asyncio.to_thread(load, self.plane.kubeconfig, None, READ)
        found: dict[str, list[tuple[str, str]]] = {}
        for each in results(snapshot):
            found.setdefault(each.check, []).append((each.state, each.text))
        return found

    async def says(self, check: str, state: str) -> str:
        """Waits until a check is in this state; what it says then."""

        async def text() -> str:
            found = (await self.found())[check]
            texts = [text for each, text in found if each == state]
            assert texts, found
            return texts[0]

        return await wait_until(text, 120, f"{check} to be {state}", LOOK)

    async def hook(self, kind: str, **changes: Any) -> None:
        """Change the first webhook of a configuration."""
        operations = [{"op": "add", "path": f"/webhooks/0/{key}", "value": value} for key, value in changes.items()]
        await self.api.patch(kind, "gpu-admission", operations)

    async def policy(self, text: str) -> None:
        await self.api.patch("ConfigMap", POLICY, {"data": {"policy.yaml": text}}, NAMESPACE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(programs: Programs) -> AsyncIterator[tuple[ControlPlane, Installed]]:
    """A control plane of its own, and replicas that it can ask."""
    with ControlPlane(programs) as plane, Installed(plane, replicas=2, reachable=True) as webhook:
        async with Api.of(plane.kubeconfig) as api:
            await clusters.apply(api, [node("doc-a", taints=[GPU_TAINT]), node("doc-b", taints=[GPU_TAINT])])
            await api.namespace(TEAM)
            await opt_in(api, TEAM)
            await api.create(pod("trainer", 1, labels={"workload-type": "training"}), TEAM)
            await api.running(TEAM, 1)
        yield plane, webhook


@pytest.fixture
async def scene(running: tuple[ControlPlane, Installed]) -> AsyncIterator[Scene]:
    async with Api.of(running[0].kubeconfig) as api:
        yield Scene(*running, api)


BEFORE = {"endpoints": "unknown", "networkPolicy": "warn"}
"""Here the webhook is called by URL, and there is no NetworkPolicy. All else is well."""


async def sound(scene: Scene) -> bool:
    """But for what is counted since the API server started."""
    found = await scene.found()
    found.pop("failOpen")
    states = {check: {state for state, _ in each} for check, each in found.items()}
    assert {check: each for check, each in states.items() if each != {BEFORE.get(check, "ok")}} == {}, found
    return True


async def test_all_is_well(scene: Scene) -> None:
    await wait_until(lambda: sound(scene), 120, "doctor to be content")
    found = await scene.found()
    assert found["policyLoaded"][0][1].startswith("2 replicas decide by ")
    assert found["versions"][0][1].startswith("2 replicas with version ")
    assert "caBundle trusts it; the one that is served is valid for" in found["certificate"][0][1]
    assert found["apiServer"][0][1].startswith("kube-apiserver v1.")
    assert found["failOpen"][0][0] == "ok"
    assert found["failOpen"][0][1].startswith("every call was answered (of ")
    waiting = await asyncio.to_thread(call, "why", "-A", "--kubeconfig", scene.plane.kubeconfig)
    assert "replica-" not in waiting.stdout, "the pods of the webhook run"


Broken = Callable[[Scene], AbstractAsyncContextManager[None]]


def broken_by(do: Callable[[Scene], Awaitable[Any]], undo: Callable[[Scene], Awaitable[Any]]) -> Broken:
    @asynccontextmanager
    async def broken(scene: Scene) -> AsyncIterator[None]:
        await do(scene)
        yield
        await undo(scene)

    return broken


def hook(kind: str, **changes: Any) -> Broken:
    (shipped, *_) = only(kind)["webhooks"]
    back = {key: shipped[key] for key in changes}
    return broken_by(lambda scene: scene.hook(kind, **changes), lambda scene: scene.hook(kind, **back))


def policy(text: str) -> Broken:
    return broken_by(lambda scene: scene.policy(text), lambda scene: scene.policy(SHIPPED))


def there(*objects: Json, namespace: str | None = None) -> Broken:
    return lambda scene: scene.api.having(*objects, namespace=namespace)


def gone(kind: str, name: str) -> Broken:
    shipped = only(kind, name)
    return broken_by(lambda scene: scene.api.delete(kind, name), lambda scene: scene.api.create(shipped))


async def broken_policy(scene: Scene) -> None:
    """It got in while no webhook looked at it."""
    await asyncio.to_thread(stop, scene)
    await scene.policy("gpu: []")
    await asyncio.to_thread(start, scene)
    assert "gpu: unknown key" in await scene.says("policy", "broken")


def stop(scene: Scene) -> None:
    for member in scene.webhook.members:
        member.stop(patience=0)


def start(scene: Scene) -> None:
    for number, member in enumerate(scene.webhook.members):
        member.start()
        scene.webhook.await_ready(number)


DESCHEDULES = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles: [{name: default, pluginConfig: [{name: RemoveDuplicates}], plugins: {balance: {enabled: [RemoveDuplicates]}}}]
"""
DESCHEDULER = (
    made("ConfigMap", "descheduler", data={"policy.yaml": DESCHEDULES}),
    pod(
        "descheduler-0",
        0,
        container={"image": "registry.k8s.io/descheduler/descheduler:v0.36.0"},
        volumes=[{"name": "policy-volume", "configMap": {"name": "descheduler"}}],
    ),
)
CASES = [
    pytest.param("descheduler", "warn", "default/descheduler: RemoveDuplicates evicts", there(*DESCHEDULER, namespace="default"), id="a descheduler"),
    pytest.param("webhooks", "warn", "timeoutSeconds", hook(VALIDATING, timeoutSeconds=30), id="a time limit"),
    pytest.param("matchConditions", "warn", "not-a-mirror-pod is missing", hook(VALIDATING, matchConditions=[]), id="a condition"),
    pytest.param("policyLoaded", "broken", "cannot use the newest", broken_by(broken_policy, lambda scene: scene.policy(SHIPPED)), id="a policy that replicas cannot use"),
    pytest.param("gpuMetrics", "broken", "no DCGM exporters", policy("gpuMetrics: {source: dcgm}"), id="exporters"),
    pytest.param("guards", "warn", "gpu-admission-profile-label does not guard", gone("ValidatingAdmissionPolicyBinding", "gpu-admission-profile-label"), id="a guard"),
    pytest.param("priorityClasses", "broken", "gpu-training", gone("PriorityClass", "gpu-training"), id="a priority class"),
    pytest.param("nodes", "warn", "offersNoGpus", there(node("doc-c", resources={"nvidia.com/gpu": "0"})), id="a node without a device plugin"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "state", "text", "broken"), CASES)
async def test_what_is_broken_is_named_and_well_again_when_repaired(
    check: str, state: str, text: str, broken: Broken, scene: Scene
) -> None:
    async def named() -> bool:  # a new node is not ready at first
        return text in await scene.says(check, state)

    async with broken(scene):
        await wait_until(named, 120, f"doctor to say {text}", LOOK)
    await wait_until(lambda: sound(scene), 120, "doctor to be content again", LOOK)


async def test_while_no_replica_answers_failed_calls_are_counted_and_certificates_are_still_compared(
    scene: Scene,
) -> None:
    await asyncio.to_thread(stop, scene)
    ready = [
        hook for kind in (MUTATING, VALIDATING) for hook in (await scene.api.get(kind, "gpu-admission"))["webhooks"]
    ]
    try:
        with pytest.raises(ApiError, match="failed calling webhook"):
            await scene.api.create(pod("refused", 1), TEAM)
        found = await scene.found()
        passed, refused = found["failOpen"]
        assert passed[0] == refused[0] == "warn"
        assert passed[1].startswith("went on without an answer: 1 request to mutate.gpu-admission.io")
        assert refused[1].startswith("refused since no replica answered: 1 request to validate.gpu-admission.io")
        assert [state for state, _ in found["replicas"]] == ["unknown"] * 2
        assert found["policyLoaded"][0] == ("unknown", "no replica answered")
        assert found["certificate"][0][0] == "ok"

        other = b64encode(make_ca(datetime.now(UTC)).certificate).decode()
        for kind in (MUTATING, VALIDATING):
            await scene.hook(kind, **{"clientConfig/caBundle": other})
        text = await scene.says("certificate", "broken")
        assert "caBundle lacks in mutate.gpu-admission.io, validate.gpu-admission.io" in text
        await scene.hook(MUTATING, **{"clientConfig/caBundle": ""})
        assert "none in mutate.gpu-admission.io" in await scene.says("caBundle", "broken")
        await scene.api.patch("Secret", SECRET, {"data": {"tls.crt": ""}}, NAMESPACE)
        assert "no whole PEM certificate" in await scene.says("certificate", "broken")
    finally:
        await asyncio.to_thread(start, scene)
    assert all(hook["clientConfig"]["caBundle"] for hook in ready)

    async def corrected() -> bool:
        found = await scene.found()
        assert {found["certificate"][0][0], found["caBundle"][0][0], found["policyLoaded"][0][0]} == {"ok"}, found
        return True

    await wait_until(corrected, 120, "a certificate that is served and trusted")


async def test_rights_that_are_missing_are_named_and_those_of_the_page_are_enough(scene: Scene, tmp_path: Path) -> None:
    rights = [{"apiGroups": [""], "resources": ["nodes", "pods", "namespaces"], "verbs": ["list"]}]
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    await scene.api.create(made("ServiceAccount", "reader"), "default")
    await scene.api.create(made("ClusterRole", "reader", rules=rights))
    await scene.api.create(made("ClusterRoleBinding", "reader", subjects=[subject], roleRef=reference))
    kubeconfig = await asyncio.to_thread(scene.plane.kubeconfig_for, "default", "reader")

    async def told(unknown: Callable[[set[str]], bool]) -> tuple[dict[str, Json], str]:
        """The checks by name, and stderr, once those whose state is unknown are as wanted: the API server hears of rights later."""
        result = await asyncio.to_thread(call, "doctor", "--kubeconfig", kubeconfig, "-o", "json")
        found = {each["check"]: each for each in json.loads(result.stdout)["items"]}
        lacking = {check for check, each in found.items() if each["state"] == "unknown"}
        assert unknown(lacking), lacking
        return found, result.stderr

    found, said = await wait_until(lambda: told(lambda lacking: "nodes" not in lacking), 120, "the rights", LOOK)
    for check, right in (
        ("certificate", "no right to list mutatingwebhookconfigurations"),
        ("failOpen", "no right to get /metrics"),
        ("replicas", "no right to get pods/proxy of gpu-admission"),
        ("networkPolicy", "no right to list networkpolicies of gpu-admission"),
    ):
        assert (found[check]["state"], found[check]["text"]) == ("unknown", right)
        assert found[check]["next"].startswith("ask for it")
    assert found["nodes"]["state"] == found["apiServer"]["state"] == "ok"
    assert said.count("no right") == 1
    assert "no right to list " in said
    assert "more kinds (the ClusterRole gpu-admission-viewer gives it)" in said
    page = (ROOT / "docs" / "rights.md").read_text()
    (lines,) = re.findall(r"```sh\n(.+?)```", page, re.DOTALL)
    for line in lines.replace("--group=GROUP", "--serviceaccount=default:reader").splitlines():
        await asyncio.to_thread(scene.plane.kubectl, *line.replace("manifests/", f"{ROOT}/manifests/").split()[1:])
    await wait_until(lambda: told({"endpoints"}.__eq__), 120, "all rights; nothing is behind a Service here", LOOK)
    for command in (["why", "-A"], ["top", "namespaces"], ["drain"], ["snapshot", str(tmp_path / "cluster.json")]):
        answer = await asyncio.to_thread(call, *command, "--kubeconfig", kubeconfig)
        assert "no right" not in answer.stderr, answer.stderr


async def test_a_reader_sees_nodes_and_sums_and_no_pod_of_others(scene: Scene) -> None:
    """The component `reader`, bound to an account that may read nothing else."""
    await scene.api.create(made("ServiceAccount", "looks"), TEAM)
    access = str(ROOT / "manifests" / "components" / "reader" / "access.yaml")
    kubectl = scene.plane.kubectl
    await asyncio.to_thread(kubectl, "apply", "-f", access)
    target = {"kind": "Pod", "name": "replica-0", "namespace": NAMESPACE}  # no controller makes endpoints here
    addresses = [{"ip": address_of_this_machine(), "targetRef": target}]
    subset = {"addresses": addresses, "ports": [{"name": "ops", "port": scene.webhook.ops_ports[0]}]}
    await scene.api.patch("Service", "gpu-admission-metrics", {"spec": {"selector": None}}, NAMESPACE)
    await scene.api.create(made("Endpoints", "gpu-admission-metrics", subsets=[subset]), NAMESPACE)
    bind = ["create", "clusterrolebinding", "looks", "--clusterrole=gpu-admission-reader"]
    await asyncio.to_thread(kubectl, *bind, f"--serviceaccount={TEAM}:looks")
    config = await asyncio.to_thread(scene.plane.kubeconfig_for, TEAM, "looks")

    async def told() -> list[str]:
        answer = await asyncio.to_thread(call, "top", "--kubeconfig", config)
        assert answer.exit_code == 0, answer.stderr
        assert "trainer" not in answer.stdout + answer.stderr
        lines = [line.split() for line in answer.stdout.splitlines() if "nvidia.com/gpu" in line]
        assert len(lines) == 4, answer.output  # once the API server has the endpoints of the Service
        assert [(line[0], *line[-4:-1]) for line in lines[:2]] == [("doc-a", "8", "0", "8"), ("doc-b", "8", "0", "8")]
        return lines[3]

    sums = await wait_until(told, 120, "the sums of the webhook")
    assert sums[-5:] == ["16", "1", "0", "15", "0"]  # total, allocated, promised, free, unusable
