"""The answers to the API server."""

import pytest

from tests.builders import request
from webhook.admission.decision import Decision, UnitFinding
from webhook.admission.response import encode
from webhook.framework.interface import Finding

ASKED = request(None)
START = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u-1",'
FINDING = Finding("spec.hostPID", "true", "false", "Remove it")


@pytest.mark.parametrize(
    ("decision", "want"),
    [
        pytest.param(Decision("ignored"), b'"allowed":true}}', id="allowed: neither patch nor patchType"),
        pytest.param(
            Decision("unchanged", warnings=("a", "b"), record="{}"),
            b'"allowed":true,"warnings":["a","b"],"auditAnnotations":{"decision":"{}"}}}',
            id="allowed with warnings and audit annotations",
        ),
        pytest.param(
            Decision("patched", patch=b"[]"),
            b'"allowed":true,"patchType":"JSONPatch","patch":"W10="}}',
            id="patched: both patch and patchType",
        ),
        pytest.param(
            Decision("denied", message='pod "a": no "x"'),
            b'"allowed":false,"status":{"code":403,"reason":"Forbidden","message":"pod \\"a\\": no \\"x\\""}}}',
            id="denied",
        ),
        pytest.param(
            Decision(
                "denied",
                message="no",
                findings=(UnitFinding("limit", "deny", FINDING), UnitFinding("host", "warn", FINDING)),
            ),
            b'"allowed":false,"status":{"code":403,"reason":"Forbidden","message":"no"},'
            b'"warnings":["host: hostPID true. Remove it. Wanted false."]}}',
            id="denied: warnings are sent too, denials are in the message",
        ),
        pytest.param(
            Decision("allowed", warnings=("a",), findings=(UnitFinding("host", "warn", FINDING),), quiet=True),
            b'"allowed":true}}',
            id="in a profile in dry run there are no warnings",
        ),
        pytest.param(
            Decision("dryRun", message="pod: no", quiet=True),
            b'"allowed":true,"auditAnnotations":{"dryRun":"pod: no"}}}',
            id="a refusal in a profile in dry run is allowed, and in the audit log",
        ),
        pytest.param(
            Decision("allowed", findings=(UnitFinding("host", "foretold", FINDING),)),
            b'"allowed":true,"warnings":["host: its pods will be refused: hostPID true. Remove it. Wanted false."]}}',
            id="a later refusal of the pods is a warning on their workload",
        ),
    ],
)
def test_the_whole_answer(decision: Decision, want: bytes) -> None:
    assert encode(ASKED, decision) == START + want
