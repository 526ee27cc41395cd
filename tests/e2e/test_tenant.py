"""What the commands say to a tenant who has the ClusterRole `view` in one namespace, on a real API server."""

import asyncio
import re
import uuid

import pytest
from typer.testing import CliRunner

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from webhook.cli.main import app

pytestmark = pytest.mark.controlplane


@pytest.fixture
async def told(control_plane: ControlPlane) -> dict[str, tuple[int, str, str]]:
    """The exit status, stdout and stderr of each command."""
    async with Api.of(control_plane.kubeconfig) as api:
        namespace = await api.namespace(f"tenant-{uuid.uuid4().hex[:6]}")
        names = await clusters.apply(api, [node("t-a", taints=["team=x:NoSchedule"])])
        try:
            await api.create(made("ServiceAccount", "tenant"), namespace)
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
            subjects = [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}]
            await api.create(made("RoleBinding", "view", roleRef=role, subjects=subjects), namespace)
            await api.create(pod("waits"), namespace)

            async def unschedulable() -> bool:
                return bool((await api.pods(namespace))[0]["status"].get("conditions"))

            await wait_until(unschedulable, 120, "the scheduler's message")
            config = await asyncio.to_thread(control_plane.kubeconfig_for, namespace, "tenant")
            said = {}
            for command in (["pending"], ["pending", "waits"], ["explain", "waits"], ["audit"], ["nodes"], ["doctor"]):
                line = [*command, "--kubeconfig", str(config)]
                line += ["-n", namespace] if command[0] not in ("nodes", "doctor") else []
                result = await asyncio.to_thread(CliRunner().invoke, app, line)
                said[" ".join(command)] = (result.exit_code, result.stdout, result.stderr)
            return said
        finally:
            await clusters.remove(api, names)
            await remove_namespace(api, namespace)


GRANT = (
    "an operator gives the right by: kubectl create clusterrole gpu-reader --verb=get,list --resource=nodes,pods && "
    "kubectl create clusterrolebinding gpu-reader --clusterrole=gpu-reader --user=NAME\n"
)


async def test_what_a_tenant_is_told(told: dict[str, tuple[int, str, str]]) -> None:
    for command in ("pending", "pending waits", "explain waits", "audit"):
        status, _, stderr = told[command]
        assert status == 0, (command, stderr)
        assert GRANT in stderr, command
    assert "untolerated taint" in told["pending"][1]
    assert "1 node: node(s) had untolerated taint(s), says the scheduler" in told["pending waits"][1]
    assert "the scheduler says: 0/1 nodes are available" in told["explain waits"][1]
    assert "pod/waits" in told["audit"][1]
    assert told["nodes"][:2] == (2, "")
    assert re.search(r"no right to list (pods|nodes), and nothing can be said without\. Ask for it", told["nodes"][2])
    status, stdout, _ = told["doctor"]
    states = {line.split()[1].rstrip(":"): line.split()[0] for line in stdout.splitlines() if not line.startswith(" ")}
    assert status in (0, 1)
    assert {states[check] for check in ("nodes", "versions", "namespaces", "policyTaints")} == {"unknown"}
