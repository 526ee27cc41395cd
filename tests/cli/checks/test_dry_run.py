"""`gpu-admission doctor --try`: each answer of the API server to a GPU pod, and the next step for how the webhook is installed."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.objects import call, kubeconfig
from tests.feeds.fake_api import fake_api
from webhook.cli.checks import dry_run
from webhook.cli.checks.dry_run import dry_run as tried
from webhook.cli.checks.result import Result
from webhook.cli.cluster.load import load
from webhook.kube.pod import DECISION

PODS = "/api/v1/namespaces/team/pods"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
LOGS = "kubectl -n gpu logs deployment/gpu-admission"
DENIED = 'admission webhook "validate.gpu-admission.io" denied the request: no [gpuFits]'


async def answer(folder: Path, stored: object = None, refusal: tuple[int, str] | None = None) -> Result:
    """What is said of a pod that is stored so, or refused."""
    async with fake_api() as fake:
        service = {"name": "gpu-admission", "namespace": "gpu"}
        fake.put(CONFIGURATIONS, "gpu-admission", webhooks=[{"clientConfig": {"service": service}}])
        if refusal:
            fake.refuse["post", PODS] = refusal
        else:
            fake.texts[PODS] = json.dumps(stored)
        snapshot = await asyncio.to_thread(load, kubeconfig(folder, fake.url), None, ("Node",))
        assert snapshot.access
        result = await asyncio.to_thread(tried, snapshot.access, snapshot.release, "team")
        assert fake.asked("post", PODS) == [{"dryRun": "All"}] or not refusal
        return result


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "_SECONDS", 1)


def pod(record: dict[str, str] | None = None) -> dict[str, object]:
    annotations = {DECISION: json.dumps(record)} if record else {}
    return {"metadata": {"name": "p", "annotations": annotations}, "spec": {}}


async def test_a_pod_with_a_decision_is_well(tmp_path: Path) -> None:
    found = await answer(tmp_path, pod({"policy": "1f0c"}))
    assert (found.state, found.next) == ("ok", "")
    assert "decides by policy 1f0c" in found.text


async def test_a_pod_that_a_rule_refuses_is_well_too(tmp_path: Path) -> None:
    found = await answer(tmp_path, refusal=(403, DENIED))
    assert found.state == "ok"
    assert "would refuse it" in found.text


async def test_a_pod_without_a_decision_is_broken(tmp_path: Path) -> None:
    found = await answer(tmp_path, pod())
    assert (found.state, found.next) == ("broken", f"see whether the namespace has opted in, and why: {LOGS}")
    assert "without a decision" in found.text


@pytest.mark.parametrize(
    "said",
    [
        'failed calling webhook "validate.gpu-admission.io": connection refused',
        'pods is forbidden: User "me" cannot create resource "pods"',
        'admission webhook "other.example" denied the request: no',
    ],
    ids=["nobody answers", "no right", "somebody else refuses"],
)
async def test_a_pod_that_cannot_be_created_is_broken(tmp_path: Path, said: str) -> None:
    found = await answer(tmp_path, refusal=(403, said))
    assert (found.state, found.next) == ("broken", LOGS)
    assert said in found.text.replace("\\", "")


def test_a_file_creates_no_pod(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"kind": "List", "items": []}')
    result = call("doctor", "--try", "team", "--cluster", file)
    assert result.exit_code == 2
    assert "saw --try with --cluster, wanted an API server" in result.stderr
