"""The control plane that the tests run on: real programs, simulated nodes."""

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
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import deployment, pod
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
    options = Options(apiserver=["--enable-admission-plugins=ExtendedResourceToleration"], scheduler=most_allocated())
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
    assert not left(folder, pids.values())


def left(folder: Path, pids: Iterable[int]) -> list[Path]:
    """What there still is of a control plane."""
    return [path for path in (folder, *(Path(f"/proc/{pid}") for pid in pids)) if path.exists()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_make_up_says_how_to_use_it_and_ends_without_a_trace(programs: Programs, number: int, tmp_path: Path) -> None:
    version = ".".join(programs.version.split(".")[:2])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.up", "--cluster=two-node", f"--k8s={version}"],
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
        commands = [line for line in said.splitlines() if line.startswith(("    export", "    alias"))]
        script = "\n".join([*commands, "kubectl get nodes"])
        answer = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=True)
        assert [line.split()[:2] for line in answer.stdout.splitlines()[1:]] == [["two-a", "Ready"], ["two-b", "Ready"]]
        process.send_signal(number)
        out.read()
    assert process.wait(120) == 0
    deadline = time.monotonic() + 120
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []
