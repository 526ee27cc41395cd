"""What the commands say on a real API server to a tenant with the ClusterRole `view` in one namespace, to one who also has the
component `reader`, and to an administrator."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from typer.testing import CliRunner

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from webhook.cli.main import app

pytestmark = pytest.mark.controlplane

MANIFEST = Path(__file__).parents[2] / "manifests" / "examples" / "20-inference.yaml"
READER = Path(__file__).parents[2] / "manifests" / "components" / "reader" / "access.yaml"
HOLDERS = ("top workloads", "top namespaces", "top classes")
COMMANDS = ("why", "why waits", "policy diff", "try", "ui", "drain", "top", *HOLDERS, "doctor")
HAVE_NO_NAMESPACE = ("drain", "top", *HOLDERS, "doctor")
Told = Mapping[str, tuple[int, str, str]]
"""The exit status, stdout and stderr of each command."""


def binding(kind: str, name: str, role: str, account: str, namespace: str) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return made(
        kind, name, roleRef=reference, subjects=[{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(control_plane: ControlPlane) -> AsyncIterator[tuple[str, Mapping[str, Path]]]:
    """A namespace with a pod that waits, and the kubeconfig of each of the three."""
    tag = uuid.uuid4().hex[:6]
    (role,) = [each for each in yaml.safe_load_all(READER.read_text()) if each["kind"] == "ClusterRole"]
    role["metadata"]["name"] = f"reader-{tag}"
    async with Api.of(control_plane.kubeconfig) as api:
        mine, others = [await api.namespace(f"{word}-{tag}") for word in ("tenant", "others")]
        names = await clusters.apply(api, [node("t-a", taints=["team=x:NoSchedule"]), node("t-b", 1)])
        everywhere = [role, binding("ClusterRoleBinding", f"reader-{tag}", f"reader-{tag}", "reads", mine)]
        try:
            for each in everywhere:
                await api.create(each)
            for account in ("views", "reads"):
                await api.create(made("ServiceAccount", account), mine)
                await api.create(binding("RoleBinding", account, "view", account, mine), mine)
            await api.create(pod("secret-of-others", 1), others)
            await api.bound(others, "secret-of-others")
            await api.create(pod("runs", 2, tolerations=[{"key": "team", "operator": "Exists"}]), mine)
            await api.bound(mine, "runs")
            await api.create(pod("waits"), mine)

            async def unschedulable() -> bool:
                (waits,) = [each for each in await api.pods(mine) if each["metadata"]["name"] == "waits"]
                return bool(waits["status"].get("conditions"))

            await wait_until(unschedulable, 120, "the scheduler's message")
            for account, right in (("views", ["pods", f"--namespace={mine}"]), ("reads", ["nodes"])):
                user = f"--as=system:serviceaccount:{mine}:{account}"
                await asyncio.to_thread(control_plane.await_right, "list", *right, user)
            configs = {"admin": control_plane.kubeconfig}
            for account in ("views", "reads"):
                configs[account] = await asyncio.to_thread(control_plane.kubeconfig_for, mine, account)
            yield mine, configs
        finally:
            for each in everywhere:
                await api.delete(each["kind"], each["metadata"]["name"], missing_ok=True)
            await clusters.remove(api, names)
            for namespace in (mine, others):
                await remove_namespace(api, namespace)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(tenants: tuple[str, Mapping[str, Path]]) -> Mapping[str, Told]:
    """What each of the three is told by each command."""
    mine, configs = tenants
    return {
        who: {command: await _ask(command, config, mine) for command in COMMANDS} for who, config in configs.items()
    }


async def _ask(command: str, config: Path, namespace: str) -> tuple[int, str, str]:
    line = [*command.split(), "--kubeconfig", str(config)]
    line += ["-n", namespace] if command not in HAVE_NO_NAMESPACE else []
    line += {"try": ["-f", str(MANIFEST)], "ui": ["--html", str(config.with_suffix(".html"))]}.get(command, [])
    result = await asyncio.to_thread(CliRunner().invoke, app, line)
    return result.exit_code, result.stdout, result.stderr


READER_GIVES = "(the component reader (manifests/components/reader) gives it)"


def states(told: Told) -> dict[str, str]:
    lines = [line.partition(": ")[0].split(None, 1) for line in told["doctor"][1].splitlines() if line[0] != " "]
    return {check: state for state, checks in lines for check in checks.split(", ")}


@pytest.mark.asyncio(loop_scope="module")
async def test_each_is_told_what_he_may_know_and_which_right_says_more(told: Mapping[str, Told]) -> None:
    for command in ("why", "why waits", "policy diff", "try", "ui"):
        for who in ("views", "reads", "admin"):
            status, _, stderr = told[who][command]
            assert status < 2, (who, command, stderr)
            lines = [
                line for line in stderr.splitlines() if "no right to list" in line and "by the shipped" not in line
            ]
            assert len(lines) == (0 if who == "admin" else 1), (who, command, stderr)
            assert (READER_GIVES in stderr) == (who == "views"), (who, command, stderr)
            assert all(len(line) < 200 for line in lines), lines
            if who != "admin":  # other tests of this cluster may have left a policy, which only he may read
                assert stderr.count("the shipped policy, since ") == 1, (who, command, stderr)
    for command in ("drain", "top"):
        status, stdout, stderr = told["views"][command]
        assert (status, stdout, stderr.count("\n")) == (2, "", 1), (command, stderr)
        assert "the component reader (manifests/components/reader) gives it" in stderr
    assert told["views"]["doctor"][2].count("the component reader") == 1

    views, reads, admin = (told[who] for who in ("views", "reads", "admin"))
    assert "GPUs taken" in views["why"][1], "the first of the scheduler's two reasons"
    assert "1 node: node(s) had untolerated taint(s), says the scheduler" in views["why waits"][1]
    assert "gpusTaken: 1 node: Insufficient nvidia.com/gpu, says the scheduler" in views["why waits"][1]
    for each in (reads, admin):
        assert "1 other node is not for this pod: by untoleratedTaint" in each["why waits"][1]
    assert "has not opted in" in views["why waits"][1], "he may get his own namespace"
    assert "pod/secret-of-others" in admin["why waits"][1], "whose end would make room"
    for tenant in (views, reads):
        assert "secret-of-others" not in "".join("".join(map(str, each)) for each in tenant.values())
        assert "pod/waits" in tenant["policy diff"][1]

    status, stdout, stderr = views["top"]
    assert (status, stdout) == (2, "")
    assert "no right to list nodes, and nothing can be said without: the component reader" in stderr
    for command in HOLDERS:  # of his own pods, whatever the nodes are
        status, stdout, stderr = views[command]
        assert (status, READER_GIVES in stderr) == (0, True), (command, stderr)
        (_, row) = stdout.splitlines()
        assert (row.split()[1], "nvidia.com/gpu 2" in " ".join(row.split())) == ("1", True), (command, row)
    status, stdout, stderr = reads["top"]
    assert status == 0
    assert [line.split()[0] for line in stdout.splitlines()[:3]] == ["NODE", "t-a", "t-b"]
    assert "ALLOCATED" not in stdout.split("\n\n")[0]
    assert "ALLOCATED" in admin["top"][1]

    assert {states(views)[check] for check in ("nodes", "versions", "namespaces", "policyTaints")} == {"unknown"}
    assert states(reads)["nodes"] == states(admin)["nodes"] != "unknown"
    assert all(told[who]["doctor"][0] in (0, 1) for who in told)
