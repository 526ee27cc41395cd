"""Encodes a decision as the AdmissionReview (v1, JSON) that answers the API server.

What the API server accepts: k8s.io/apiserver pkg/admission/plugin/webhook/request/admissionreview.go.
"""

from base64 import b64encode
from typing import Any

import orjson

from webhook.admission import record
from webhook.admission.decision import Decision
from webhook.kube.review import API_VERSION, Request


def encode(request: Request, decision: Decision) -> bytes:
    """The bytes of the answer: allowed, allowed with a JSON Patch, or refused.

    For a refusal the client gets 403 and `admission webhook "<name>" denied the request: <message>`. The record goes to the
    audit log, and so does what a profile in dry run would have said.
    """
    response: dict[str, Any] = {"uid": request.uid, "allowed": decision.result != "denied"}
    if decision.patch is not None:
        response |= {"patchType": "JSONPatch", "patch": b64encode(decision.patch).decode()}
    if decision.result == "denied":
        response["status"] = {"code": 403, "reason": "Forbidden", "message": decision.message}
    if warnings := warnings_of(decision):
        response["warnings"] = warnings
    if decision.record:
        response["auditAnnotations"] = {"decision": decision.record}
    elif decision.quiet and decision.message:
        response["auditAnnotations"] = {"dryRun": decision.message}
    return orjson.dumps({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


def warnings_of(decision: Decision) -> list[str]:
    """The warnings for the client, as the API server accepts them: few, short, one line each."""
    briefs = []
    for unit, action, finding in decision.findings:
        if action != "deny":
            head = f"{unit}: {'its pods will be refused: ' if action == 'foretold' else ''}"
            briefs.append(head + finding.brief(record.MAX_WARNING_LENGTH - len(head)))
    return [] if decision.quiet else record.warnings((*decision.warnings, *briefs))
