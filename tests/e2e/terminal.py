"""A person who applies manifests with kubectl, and what is printed."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import yaml

from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.kinds import path
from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import NODES
from tests.installed import known, opt_in

Json = dict[str, Any]
MODES = ("off", "warn", "fix", "deny")
PROFILES = "".join(f'  mode-{mode}: {{templates: {{mode: "{mode}"}}}}\n' for mode in MODES)


class Said(NamedTuple):
    """What kubectl printed."""

    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Of stderr, without the hash of the policy."""
        return re.sub(r"\(policy [0-9a-f]{12}\)", "(policy)", self.err).splitlines()


class Terminal:
    """kubectl in one namespace for each mode."""

    def __init__(self, plane: ControlPlane, tag: str) -> None:
        self.plane = plane
        self.namespaces = {mode: f"templates-{mode}-{tag}" for mode in MODES}

    def run(self, mode: str, *arguments: str, input: str | None = None) -> Said:
        answer = self.plane.kubectl("-n", self.namespaces[mode], *arguments, input=input, check=False)
        return Said(answer.stdout.strip(), answer.stderr.strip())

    def apply(self, mode: str, obj: Json, *flags: str) -> Said:
        return self.run(mode, "apply", *flags, "-f", "-", input=yaml.safe_dump(obj))

    def stored(self, mode: str, name: str) -> Json:
        """The one container of a Deployment's template."""
        found = json.loads(self.plane.request("GET", path("Deployment", self.namespaces[mode], name)))
        (main,) = found["spec"]["template"]["spec"]["containers"]
        return dict(main)


@asynccontextmanager
async def namespaces(terminal: Terminal) -> AsyncIterator[None]:
    """Those of the terminal, and two nodes of eight A100."""
    async with Api.of(terminal.plane.kubeconfig) as api, clusters.applied(api, NODES):
        for mode, name in terminal.namespaces.items():
            await api.namespace(name)
            await opt_in(api, name, f"mode-{mode}")
        await known(api, NODES)
        yield
        for name in terminal.namespaces.values():
            await remove_namespace(api, name)
