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
from tests.controlplane.api import Api, Json
from tests.controlplane.nodes import GPU_TAINT
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs
from tests.controlplane.settings import Options, most_allocated

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).parents[2]


def placed(pods: list[Json]) -> dict[str, int]:
    """node -> number of the pods on it."""
    names = [each["spec"]["nodeName"] for each in pods]
    return {name: names.count(name) for name in names}


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
