"""A person who applies manifests with kubectl, and what is printed."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import yaml

from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import NODES
from tests.installed import PROFILE_LABEL, ROOT

Json = dict[str, Any]
SHIPPED = (ROOT / "manifests" / "policy.yaml").read_text()
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
        found = json.loads(self.run(mode, "get", "deployment", name, "-o", "json").out)
        (main,) = found["spec"]["template"]["spec"]["containers"]
        return dict(main)


async def make(terminal: Terminal) -> None:
    async with Api.of(terminal.plane.kubeconfig) as api:
        await clusters.apply(api, NODES)
        for mode, name in terminal.namespaces.items():
            await api.namespace(name, {PROFILE_LABEL: f"mode-{mode}"})

            async def decided(name: str = name, mode: str = mode) -> bool:
                try:
                    answer = await api.create(pod("probe"), name, dryRun="All")
                except ApiError:
                    return False  # the nodes are not known yet
                record = answer["metadata"].get("annotations", {}).get("gpu-admission.io/decision", "{}")
                return bool(json.loads(record).get("profile") == f"mode-{mode}")

            await wait_until(decided, 120, f"profile mode-{mode} in {name}")


async def remove(terminal: Terminal) -> None:
    async with Api.of(terminal.plane.kubeconfig) as api:
        for name in terminal.namespaces.values():
            await remove_namespace(api, name)
        await clusters.remove(api, [each["metadata"]["name"] for each in NODES])
