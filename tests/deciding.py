"""Lets the hooks decide on one object or AdmissionReview of a file, as the server does."""

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from webhook.admission import workloads
from webhook.admission.decision import IGNORED, Decision
from webhook.admission.pods import validate
from webhook.admission.response import encode
from webhook.kube.pod_schema import check
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.server import handlers
from webhook.state.state import ClusterState
from webhook.whatif.offline import Document, as_new, ask, opted_in, patched, refused, refused_by_limits

Decide = Callable[[Document, Policy, ClusterState, float], Decision]


class Result(NamedTuple):
    document: Document
    decision: Decision
    pod: dict[str, Any]
    """The object with the patch of the decision applied."""
    answer: bytes
    """The AdmissionReview that the server would answer with, as JSON."""


def decide_mutate(document: Document, policy: Policy, state: ClusterState, now: float) -> Decision:
    return handlers.admitted(document.request, policy, state, Placer(state), now)


def decide_validate(document: Document, policy: Policy, state: ClusterState, now: float) -> Decision:
    """Validate an object as the mutating hook leaves it, as in a cluster, and an AdmissionReview as it is."""
    request, view, placer = document.request, state.view(now), Placer(state)
    if request.resource != "pods":
        mutated = workloads.mutate(request, policy, view, placer) if document.plain else IGNORED
        return mutated if mutated.result == "denied" else workloads.validate(request, policy, view, placer)
    if not document.plain:
        return validate(request, policy, view, placer)
    mutated, validated, pod = ask(request, policy, view, placer)
    if validated is not mutated and (beyond := refused_by_limits(request, pod, view)):
        return beyond
    if validated is mutated or validated is IGNORED:
        return validated
    return validated._replace(warnings=(*mutated.warnings, *validated.warnings))


def run(document: Document, decide: Decide, policy: Policy, state: ClusterState, now: float = 0.0) -> Result:
    """Decide on one document. In the result it is `as_new`."""
    request, view = document.request, state.view(now)
    if request.resource == "pods" and request.subresource in ("", "ephemeralcontainers") and request.object:
        check(request.object)
    document = as_new(document, view)
    decision = refused(document.request, document.refusals)
    if decision is None and document.plain and not opted_in(request.namespace, view):
        of_pod = request.resource == "pods"
        decision = (of_pod and refused_by_limits(request, document.request.object or {}, view)) or IGNORED
    decision = decision or decide(document, policy, state, now)
    pod = patched(orjson.loads(document.original), decision)
    return Result(document, decision, pod, encode(document.request, decision))
