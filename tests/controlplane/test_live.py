"""The control plane that the tests run on: real programs, simulated nodes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.controlplane import clusters, settings
from tests.controlplane.api import Api, ApiError, Json, wait_until
from tests.controlplane.fixtures import MakeNodes, remove_namespace
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import COMPLETE_AFTER, deployment, job, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs
from tests.controlplane.settings import Options, most_allocated

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).parents[2]


def placed(pods: list[Json]) -> dict[str, int]:
    """node -> number of the pods on it."""
    names = [each["spec"]["nodeName"] for each in pods]
    return {name: names.count(name) for name in names}


async def test_a_deployment_runs_on_simulated_nodes_and_takes_their_gpus(
    api: Api, namespace: str, nodes: MakeNodes
) -> None:
    await nodes("2x4")
    await api.create(deployment("web", replicas=9), namespace)
    pods = await api.running(namespace, 8, app="web")
    assert placed(pods) == {"gpu-0": 4, "gpu-1": 4}

    async def told() -> str:
        (waiting,) = [each for each in await api.pods(namespace) if each["status"]["phase"] == "Pending"]
        return str(waiting["status"]["conditions"][0]["message"])

    assert "Insufficient nvidia.com/gpu" in await wait_until(told, 120, "the scheduler's reason")


async def test_a_namespace_leaves_no_pods_behind(api: Api, nodes: MakeNodes) -> None:
    await nodes("1x4")
    names = [await api.namespace(f"left-{number}") for number in range(2)]
    for name in names:
        await api.create(deployment("web", 2), name)
        await api.running(name, 2)
    await remove_namespace(api, names[0])
    assert await api.pods(names[0]) == []
    assert len(await api.running(names[1], 2)) == 2
    await remove_namespace(api, names[1])


@pytest.mark.parametrize("name", ["two-node", "pools", "3x2"])
async def test_a_cluster_arrives_as_it_is_meant_to_be(api: Api, nodes: MakeNodes, name: str) -> None:
    wanted = {each["metadata"]["name"]: each for each in clusters.cluster(name)}
    assert await nodes(name) == list(wanted)
    found = {each["metadata"]["name"]: each for each in await api.list("Node")}
    assert found.keys() == wanted.keys()
    for each, meant in wanted.items():
        assert found[each]["metadata"]["labels"] == meant["metadata"]["labels"]
        assert found[each]["status"]["allocatable"] == meant["status"]["allocatable"]
        assert found[each]["status"].get("images", []) == meant["status"]["images"]
        taints = [{"key": t["key"], "effect": t["effect"]} for t in found[each]["spec"].get("taints", [])]
        assert taints == [{"key": t["key"], "effect": t["effect"]} for t in meant["spec"].get("taints", [])]


async def test_a_node_that_is_not_ready_gets_no_pod_until_it_is(api: Api, namespace: str, nodes: MakeNodes) -> None:
    await nodes([node("away", ready=False)])
    await api.create(pod("p"), namespace)

    async def refused() -> bool:
        (found,) = await api.pods(namespace)
        return any("untolerated taint" in each.get("message", "") for each in found["status"].get("conditions", ()))

    await wait_until(refused, 120, "the scheduler to refuse the node")
    await clusters.set_ready(api, "away", True)
    await api.running(namespace, 1)
    await clusters.set_ready(api, "away", False)


async def test_a_pod_completes_when_it_asks_to(api: Api, namespace: str, nodes: MakeNodes) -> None:
    await nodes("1x4")
    await api.create(job("stays", 2), namespace)
    await api.create(job("ends", 2, annotations={COMPLETE_AFTER: "100ms"}), namespace)

    async def complete() -> bool:
        return bool((await api.get("Job", "ends", namespace))["status"].get("completionTime"))

    await wait_until(complete, 120, "the Job complete")
    assert len(await api.running(namespace, 2, app="stays")) == 2


async def test_an_api_server_that_crashed_comes_back_with_its_data(
    control_plane: ControlPlane, api: Api, namespace: str, nodes: MakeNodes
) -> None:
    await nodes("1x4")
    await api.create(deployment("before", 1), namespace)
    before = await api.running(namespace, 1)
    control_plane.restart("kube-apiserver", patience=0)
    assert [each["metadata"]["uid"] for each in await api.pods(namespace)] == [
        each["metadata"]["uid"] for each in before
    ]
    await api.create(deployment("after", 1), namespace)
    await api.running(namespace, 1, app="after")  # the controllers, the scheduler and kwok are with it again


async def test_without_a_scheduler_pods_wait_for_one(
    control_plane: ControlPlane, api: Api, namespace: str, nodes: MakeNodes
) -> None:
    await nodes("1x4")
    control_plane.stop("kube-scheduler")
    try:
        await api.create(pod("p"), namespace)
        await asyncio.sleep(1)
        (waiting,) = await api.pods(namespace)
        assert "nodeName" not in waiting["spec"]
    finally:
        control_plane.start("kube-scheduler")
    await api.running(namespace, 1)


async def test_the_audit_log_says_who_created_a_pod(control_plane: ControlPlane, api: Api, namespace: str) -> None:
    await api.create(deployment("web", 1), namespace)

    async def audited() -> list[Json]:
        return control_plane.audit_events(verb="create", resource="pods", namespace=namespace)

    (event, *_) = await wait_until(audited, 120, "the audit event")
    assert event["user"]["username"] == "system:serviceaccount:kube-system:replicaset-controller"
    assert event["requestObject"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "pod-security.kubernetes.io/enforce-policy" in event["annotations"]
    assert event in control_plane.audit_events(namespace=namespace)


async def test_a_service_account_may_do_what_its_role_says_and_no_more(
    control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    kubeconfig = control_plane.kubeconfig_for(namespace, "default")
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": rules}
    await api.create(role, namespace)
    async with Api.of(kubeconfig) as account:
        with pytest.raises(ApiError, match=r"403 Forbidden") as caught:
            await account.list("Pod", namespace)
        assert caught.value.message.startswith(f'pods is forbidden: User "system:serviceaccount:{namespace}:default"')
        control_plane.kubectl(
            "create",
            "rolebinding",
            "r",
            "--role=r",
            f"--serviceaccount={namespace}:default",
            f"--namespace={namespace}",
        )

        async def allowed() -> bool:
            try:
                return await account.list("Pod", namespace) == []
            except ApiError as error:
                raise AssertionError(str(error)) from error

        await wait_until(allowed, 120, "the role in force")


def test_kubectl_says_what_was_wrong(control_plane: ControlPlane) -> None:
    with pytest.raises(AssertionError, match=r'(?s)kubectl get node nobody gave 1:.*nodes "nobody" not found'):
        control_plane.kubectl("get", "node", "nobody")
    assert control_plane.kubectl("get", "node", "nobody", check=False).returncode == 1


def test_the_release_is_the_one_that_was_asked_for(control_plane: ControlPlane, programs: Programs) -> None:
    assert f'"gitVersion": "v{programs.version}"' in control_plane.kubectl("get", "--raw=/version").stdout


async def test_an_answer_brings_its_warnings_and_a_typo_is_refused(api: Api, namespace: str) -> None:
    found = await api.create(pod("p", nodeSelector={"beta.kubernetes.io/os": "linux"}), namespace)
    assert found.warnings == (
        'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
    )
    with pytest.raises(ApiError, match=r'400 BadRequest.*unknown field "spec.nodeSelektor"'):
        await api.create(pod("q", nodeSelektor={}), namespace)


async def test_a_watch_tells_what_happens(api: Api, namespace: str) -> None:
    await api.create(pod("p"), namespace)
    await api.delete("Pod", "p", namespace, grace=0)
    await api.create(pod("q"), namespace)
    seen = []
    async for kind, found in api.watch("Pod", namespace):
        seen.append((kind, found["metadata"]["name"]))
        if kind == "DELETED":
            break
        await api.delete("Pod", "q", namespace, grace=0, missing_ok=True)
    assert seen[0] == ("ADDED", "q")
    assert seen[-1] == ("DELETED", "q")


@pytest.fixture
def lost_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The next port that a control plane chooses is taken before its API server takes it."""
    with socket.create_server((settings.HOST, 0)) as taken:
        port: int = taken.getsockname()[1]
        ports = iter([port])
        free_port = settings.free_port
        monkeypatch.setattr(settings, "free_port", lambda: next(ports, None) or free_port())
        yield port


async def test_another_control_plane_may_differ_and_takes_another_port_if_one_is_lost(
    programs: Programs, lost_port: int
) -> None:
    options = Options(
        apiserver=["--enable-admission-plugins=ExtendedResourceToleration"],
        scheduler=most_allocated(),
        complete_jobs=True,
    )
    with ControlPlane(programs, options) as plane:
        folder, pids = plane.folder, plane.pids()
        assert len(pids) == 5
        assert plane.port != lost_port
        async with Api.of(plane.kubeconfig) as api:
            await clusters.apply(api, clusters.cluster("2x4", taints=[GPU_TAINT]))
            name = await api.namespace("packed")
            for number in range(4):  # bare pods: those of a Deployment are spread by default, at twice the weight
                await api.create(pod(f"p{number}", labels={"app": "web"}), name)
            pods = await api.running(name, 4, app="web")
            assert list(placed(pods).values()) == [4], "most allocated: all on one node"
            assert "nvidia.com/gpu" in [each["key"] for each in pods[0]["spec"]["tolerations"]]
            await api.create(job("j"), name)

            async def complete() -> bool:
                return bool((await api.get("Job", "j", name))["status"].get("completionTime"))

            await wait_until(complete, 120, "the Job complete")
    assert not left(folder, pids.values())


async def test_without_kwok_pods_are_bound_and_no_more(programs: Programs) -> None:
    with ControlPlane(programs, Options(kwok=False)) as plane:
        assert "kwok" not in plane.pids()
        async with Api.of(plane.kubeconfig) as api:
            await clusters.apply(api, [node("still", taints=[GPU_TAINT])], by_hand=True)
            tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
            await api.create(pod("p", tolerations=tolerations), "default")

            async def bound() -> bool:
                (found,) = await api.pods("default")
                assert found["status"]["phase"] == "Pending"
                return bool(found["spec"].get("nodeName") == "still")

            await wait_until(bound, 120, "the pod bound")


def left(folder: Path, pids: Iterable[int]) -> list[Path]:
    """What there still is of a control plane."""
    return [path for path in (folder, *(Path(f"/proc/{pid}") for pid in pids)) if path.exists()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_the_command_says_how_to_use_it_and_ends_without_a_trace(
    programs: Programs, number: int, tmp_path: Path
) -> None:
    version = ".".join(programs.version.split(".")[:2])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.controlplane", "run", "--cluster=two-node", f"--k8s={version}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    with process.stdout as out:
        said = ""
        while "Ctrl-C" not in said:
            line = out.readline()
            assert line, f"it ended: {said}"
            said += line
        commands = "\n".join(line for line in said.splitlines() if line.startswith("    "))
        answer = subprocess.run(["sh", "-ec", commands], capture_output=True, text=True, check=True)
        assert [line.split()[:2] for line in answer.stdout.splitlines()[1:]] == [["two-a", "Ready"], ["two-b", "Ready"]]
        process.send_signal(number)
        out.read()
    assert process.wait(30) == 0
    deadline = time.monotonic() + 10
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []
