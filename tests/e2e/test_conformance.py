"""`gpu-admission doctor --conformance` on a real API server: all is as it should be, and what is not is named."""

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.controlplane.api import Api
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import made
from tests.controlplane.plane import ControlPlane
from tests.installed import Installed
from webhook.cli.main import app

pytestmark = pytest.mark.controlplane


async def report(plane: ControlPlane, namespace: str) -> tuple[int, dict[str, list[str]]]:
    """The exit status, and the texts by state."""
    line = ["doctor", "--conformance", namespace, "--kubeconfig", str(plane.kubeconfig), "-o", "json"]
    answer = await asyncio.to_thread(CliRunner().invoke, app, line)
    texts: dict[str, list[str]] = {}
    for each in json.loads(answer.stdout)["items"]:
        texts.setdefault(each["state"], []).append(each["text"])
    return answer.exit_code, texts


async def test_every_case_holds_with_the_shipped_policy(
    control_plane: ControlPlane, team: str, nodes: MakeNodes
) -> None:
    await nodes("2x8")
    status, texts = await report(control_plane, team)
    assert (status, list(texts), len(texts["ok"])) == (0, ["ok"], 21)
    assert [text for text in texts["ok"] if "something else refuses it" in text] == []


async def test_what_another_policy_refuses_is_not_blamed_on_ours(
    control_plane: ControlPlane, api: Api, team: str, nodes: MakeNodes
) -> None:
    await nodes("2x8")
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    none = {"expression": "!has(object.spec.priorityClassName) || object.spec.priorityClassName != 'gpu-training'"}
    spec: dict[str, Any] = {"matchConstraints": {"resourceRules": [pods]}, "validations": [none]}
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team}}}
    binding = {"policyName": "no-training", "validationActions": ["Deny"], "matchResources": where}
    await api.create(made("ValidatingAdmissionPolicy", "no-training", spec=spec))
    await api.create(made("ValidatingAdmissionPolicyBinding", "no-training", spec=binding))
    try:
        while "unknown" not in (found := await report(control_plane, team))[1]:  # noqa: ASYNC110  it is in force soon
            await asyncio.sleep(0.5)
    finally:
        await api.delete("ValidatingAdmissionPolicyBinding", "no-training")
        await api.delete("ValidatingAdmissionPolicy", "no-training")
    (text,) = found[1]["unknown"]
    assert text.startswith("a pod of training has its priority: something else refuses it: ")
    assert found[0] == 0


async def test_without_a_server_each_case_says_what_happened(
    control_plane: ControlPlane, installed: Installed, team: str, nodes: MakeNodes
) -> None:
    await nodes("2x8")
    for member in installed.members:
        member.stop(patience=0)
    try:
        status, texts = await report(control_plane, team)
    finally:
        for number, member in enumerate(installed.members):
            member.start()
            installed.await_ready(number)
    assert status == 1
    assert sum("not created: " in text for text in texts["broken"]) >= 10
    assert "a pod without GPUs stays as it is: not touched" in texts["ok"]


async def test_a_namespace_that_has_not_opted_in_is_refused_with_the_command(
    control_plane: ControlPlane, namespace: str
) -> None:
    line = ["doctor", "--conformance", namespace, "--kubeconfig", str(control_plane.kubeconfig)]
    answer = await asyncio.to_thread(CliRunner().invoke, app, line)
    assert answer.exit_code == 2
    assert f"kubectl label namespace {namespace} gpu-admission.io/profile=default" in answer.stderr
