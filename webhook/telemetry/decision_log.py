"""The line of a decision in the log: what finds it again. Never an object, never a body."""

from __future__ import annotations

from typing import Any, Final

import orjson

from webhook.admission.decision import Decision
from webhook.kube.review import Request

_MAX_NAME: Final = 500
"""Characters of a name. No object has so many, but a stranger may say so."""


def fields(hook: str, request: Request, decision: Decision, seconds: float) -> dict[str, Any]:
    """What is logged beside the result.

    Findings by rule, action and path. The record only where the pod does not have it: it stands on the pod and in the audit log.
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
