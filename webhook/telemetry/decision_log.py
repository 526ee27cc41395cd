"""The log line of a decision: the fields by which it can be found. It never has an object or a body."""

from __future__ import annotations

from typing import Any, Final

import orjson

from webhook.admission.decision import Decision
from webhook.kube.review import Request

_MAX_NAME: Final = 500
"""Maximum length of a name. No object has a longer one, but a forged review may."""


def fields(hook: str, request: Request, decision: Decision, seconds: float) -> dict[str, Any]:
    """The fields of the line, without the result.

    Findings are logged by rule, action and path. The record is logged only if the pod does not get it as an annotation.
    """
    line: dict[str, Any] = {
        "hook": hook,
        "uid": request.uid,
        "namespace": request.namespace[:_MAX_NAME],
        "pod": (request.name or f"{request.generated}*")[:_MAX_NAME],
        "us": round(seconds * 1e6),
    }
    if (placement := decision.placement) is not None:
        line |= {"node": placement.nodes[0].node} if placement.nodes else {"why": placement.reason}
    if request.dry_run:
        line["dryRun"] = True
    line |= {"profile": decision.profile, "policy": decision.policy}
    if decision.workload:
        line["class"] = decision.workload
    if decision.record and decision.patch is None:
        line["record"] = orjson.Fragment(decision.record)
    if decision.findings:
        line["findings"] = [[unit, action, finding.path] for unit, action, finding in decision.findings]
    return line
