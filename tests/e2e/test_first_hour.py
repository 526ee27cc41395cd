"""docs/first-hour.md, from the label to the first pod that waits: what the page says is typed as it stands."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes, remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.plane import ControlPlane
from tests.installed import ROOT, Installed, opt_in

pytestmark = pytest.mark.controlplane

TEAM = "my-team"
PAGE = (ROOT / "docs" / "first-hour.md").read_text()
COMMANDS = [
    command
    for block in re.findall(r"```console\n(.+?)```", PAGE, re.DOTALL)
    for command in re.split(r"(?<!\|)\n(?=\S)", block.strip())
    if re.match(rf"[a-z-]+ .*\b{TEAM}\b", command)
]
SAYS = (
    "0 pods: nothing to compare, by",
    f"namespace/{TEAM} labeled",
    "Warning: its pods will get: tolerations, priorityClass, topologySpread",
    "the node that was chosen",
    "[deviceEnv]",
    "deployment.apps/chat patched",
    "nodeSelector: nodeSelector nvidia.com/gpu.product=GPU-X is on no node",
    'deployment.apps "chat" deleted',
    f"namespace/{TEAM} unlabeled",
)
"""What each of them prints, in the end."""


def test_each_command_of_the_page_is_tried() -> None:
    assert len(COMMANDS) == len(SAYS)


async def test_the_commands_of_the_page_do_what_it_says(
    control_plane: ControlPlane, installed: Installed, api: Api, nodes: MakeNodes
) -> None:
    await nodes([node("fh-a"), node("fh-b")])
    await api.namespace(TEAM)
    path = [str(Path(sys.executable).parent), str(Path(control_plane.programs.path("kubectl")).parent)]
    environment = os.environ | {"KUBECONFIG": str(control_plane.kubeconfig)}
    environment["PATH"] = os.pathsep.join([*path, environment["PATH"]])

    def typed(command: str) -> str:
        done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=False)
        return " ".join((done.stdout + done.stderr).split())

    try:
        for command, says in zip(COMMANDS, SAYS, strict=True):

            async def said(command: str = command, says: str = says) -> bool:
                assert says in (answer := await asyncio.to_thread(typed, command)), answer
                return True

            if command.startswith("gpu-admission"):  # the pods are bound, or found to wait, in a moment
                await wait_until(said, 120, command, every=1)
            else:
                await said()
            if "profile=default" in command:
                await opt_in(api, TEAM)
    finally:
        await remove_namespace(api, TEAM)
