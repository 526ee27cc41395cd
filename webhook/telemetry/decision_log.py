"""The line of a decision in the log: what finds it again. Never an object, never a body."""

from __future__ import annotations

from typing import Any, Final

import orjson

from webhook.admission.decision import Decision
from webhook.kube.review import Request

_LONGEST: Final = 500
"""Characters of a name. No object has so many, but a stranger may say so."""


def fields(hook: str, request: Request, decision: Decision, seconds: float) -> dict[str, Any]:
    """What is logged beside the result.

    Findings by rule, action and path. The record only where the pod does not have it: it stands on the pod and in the audit log.
    """
    found: dict[str, Any] = {
        "hook": hook,
        "uid": request.uid,
        "namespace": request.namespace[:_LONGEST],
        "pod": (request.name or f"{request.generated}*")[:_LONGEST],
        "us": round(seconds * 1e6),
    }
    if (placement := decision.placement) is not None:
        found |= {"node": placement.nodes[0].node} if placement.nodes else {"why": placement.reason}
    if request.dry_run:
        found["dryRun"] = True
    found["profile"] = decision.profile
    if decision.record and decision.patch is None:
        found["record"] = orjson.Fragment(decision.record)
    if decision.findings:
        found["findings"] = [[unit, action, finding.path] for unit, action, finding in decision.findings]
    return found
