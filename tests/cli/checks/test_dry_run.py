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


async def answer(folder: Path, record: str, refusal: str) -> Result:
    """What is said of a pod that is stored with this record, or refused."""
    annotations = {DECISION: record} if record else {}
    async with fake_api() as fake:
        service = {"name": "gpu-admission", "namespace": "gpu"}
        fake.put(CONFIGURATIONS, "gpu-admission", webhooks=[{"clientConfig": {"service": service}}])
        if refusal:
            fake.refuse["post", PODS] = (403, refusal)
        else:
            fake.texts[PODS] = json.dumps({"metadata": {"name": "p", "annotations": annotations}, "spec": {}})
        snapshot = await asyncio.to_thread(load, kubeconfig(folder, fake.url), None, ("Node",))
        assert snapshot.access
        result = await asyncio.to_thread(tried, snapshot.access, snapshot.release, "team")
        assert fake.asked("post", PODS) == [{"dryRun": "All"}] or not refusal
        return result


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "_SECONDS", 1)


FORBIDDEN = 'pods is forbidden: User "me" cannot create resource "pods"'
GONE = 'namespaces "team" not found'
UNREACHED = (
    f"let the API server reach the port https of the pods (docs/operations.md, GpuAdmissionFailedOpen), and see: {LOGS}"
)
UNASKED = f"see whether the namespace has opted in, and why: {LOGS}"


@pytest.mark.parametrize(
    ("record", "refusal", "state", "said", "step"),
    [
        pytest.param('{"policy": "1f0c"}', "", "ok", "decides by policy 1f0c", "", id="a decision"),
        pytest.param("", "", "broken", "without a decision", UNASKED, id="no decision"),
        pytest.param("", DENIED, "ok", "would refuse it", "", id="a rule refuses it"),
        pytest.param("", FORBIDDEN, "unknown", "no right to create pods in team: ", "", id="no right"),
        pytest.param("", GONE, "broken", GONE, "name a namespace that exists", id="no such namespace"),
        *[
            pytest.param("", refusal, "broken", refusal, UNREACHED, id=refusal[-12:])
            for refusal in (
                'failed calling webhook "v": failed to call webhook: Post "https://gpu.svc:443": context deadline exceeded',
                'failed calling webhook "v": failed to call webhook: Post "https://gpu.svc:443": dial tcp 10.0.0.1:443: i/o timeout',
            )
        ],
        *[
            pytest.param("", refusal, "broken", refusal, LOGS, id=why)
            for why, refusal in {
                "nobody answers": 'failed calling webhook "validate.gpu-admission.io": connection refused',
                "something else is missing": 'serviceaccounts "default" not found',
                "somebody else refuses": 'admission webhook "other.example" denied the request: no',
            }.items()
        ],
    ],
)
async def test_what_becomes_of_a_pod(
    tmp_path: Path, record: str, refusal: str, state: str, said: str, step: str
) -> None:
    found = await answer(tmp_path, record, refusal)
    assert (found.state, found.next) == (state, step)
    assert said in found.text.replace("\\", "")


def test_a_file_creates_no_pod(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"kind": "List", "items": []}')
    result = call("doctor", "--try", "team", "--from", file)
    assert result.exit_code == 2
    assert "saw --try with --from, wanted an API server" in result.stderr
