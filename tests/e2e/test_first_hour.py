"""docs/first-hour.md on `make up`, and the install lines on a fresh control plane: what the pages say is typed as it stands."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import up
from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.helm import find_helm
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs
from tests.e2e.bare import bare
from tests.installed import ROOT, opt_in

pytestmark = pytest.mark.controlplane

TEAM = "my-team"
PAGE = (ROOT / "docs" / "first-hour.md").read_text()
INSTALL = (ROOT / "docs" / "install.md").read_text()


def commands(page: str) -> Iterator[str]:
    """Of its `console` blocks, one after the other, without what is printed."""
    for block in re.findall(r"^```console\n(.+?)^```", page, re.DOTALL | re.MULTILINE):
        if block.startswith("$ "):  # with what it prints: tests/test_readme.py compares that
            continue
        for command in re.split(r"(?<![|\\])\n(?=\S)", block.strip()):
            yield command.partition("  #")[0]


SAYS = (
    "the webhook: nothing is broken",
    f"namespace/{TEAM} created",
    "deployment.apps/chat created",
    f"opt in, and create the pod again: kubectl label namespace {TEAM} gpu-admission.io/profile=default",
    "it waits now, and would start",
    f"namespace/{TEAM} labeled",
    "deployment.apps/chat restarted",
    "the node that was chosen",
    "deployment/chat",
    "strategy apart",
    "[deviceEnv]",
    "deployment.apps/chat patched",
    "nodeSelector: nodeSelector nvidia.com/gpu.product=GPU-X is on no node",
    'deployment.apps "chat" deleted',
    f"namespace/{TEAM} unlabeled",
)
"""What each command of the page prints, in the end."""


def test_each_command_of_the_page_is_tried() -> None:
    assert len(list(commands(PAGE))) == len(SAYS)


class Shell:
    """Types commands as a user does whose PATH has kubectl and ours."""

    def __init__(self, plane: ControlPlane, *folders: Path, **environment: str) -> None:
        path = [Path(sys.executable).parent, Path(plane.programs.path("kubectl")).parent, *folders]
        self.environment = os.environ | environment | {"KUBECONFIG": str(plane.kubeconfig)}
        self.environment["PATH"] = os.pathsep.join([*map(str, path), os.environ["PATH"]])

    async def typed(self, command: str) -> str:
        """What it prints, on one line."""
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-c", command],
            env=self.environment,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        return " ".join((done.stdout + done.stderr).split())

    async def until(self, command: str, says: str) -> None:
        """Types it until it says so: what a command reads is there a moment after it was written."""

        async def said() -> bool:
            assert says in (answer := await self.typed(command)), answer
            return True

        await wait_until(said, 120, command, every=1)


async def test_the_first_hour_on_make_up(programs: Programs) -> None:
    with ExitStack() as stack:
        plane, _ = await asyncio.to_thread(stack.enter_context, up.running(programs, "pools"))
        shell = Shell(plane)
        for command, says in zip(commands(PAGE), SAYS, strict=True):
            if command.startswith("kubectl gpu"):
                await shell.until(command, says)
            else:
                assert says in (answer := await shell.typed(command)), answer
            if "profile=default" in command:
                async with Api.of(plane.kubeconfig) as api:
                    await opt_in(api, TEAM)
        await shell.until("kubectl apply -k manifests/", "go on with step 2 of docs/first-hour.md")
        async with Api.of(plane.kubeconfig) as api:
            await api.create(pod("after-it"), "team")


async def test_the_install_lines_on_a_fresh_control_plane(beside: ControlPlane, tmp_path: Path) -> None:
    """But for those that build and push the image, which need a container runtime: they are the Dockerfile's."""
    (tmp_path / "helm").symlink_to(find_helm())
    image, *lines = [line for line in commands(INSTALL.partition("## The command")[0]) if "my-team" not in line]
    build, helm, rollout, kustomize = lines
    assert build.startswith("docker build")
    name = image.removeprefix("export IMAGE=")
    shell = Shell(beside, tmp_path, IMAGE=name, HELM_CACHE_HOME=str(tmp_path), HELM_CONFIG_HOME=str(tmp_path))
    for install in (helm, kustomize):
        async with bare(beside) as api:
            await clusters.apply(api, clusters.cluster("pools"))
            assert "rror" not in (answer := await shell.typed(install)), answer
            assert "successfully rolled out" in (answer := await shell.typed(rollout)), answer
            server = await api.get("Deployment", "gpu-admission", "gpu-admission")
            (container,) = server["spec"]["template"]["spec"]["containers"]
            assert (container["image"], server["spec"]["replicas"]) == (name, 2)


def test_the_readme_installs_as_the_page_does() -> None:
    installed = [line for line in commands((ROOT / "README.md").read_text()) if not line.startswith("$")]
    assert installed == [*commands(INSTALL)][: len(installed)]
