"""What is answered to a decision, and how a refusal begins."""

from __future__ import annotations

import orjson

from webhook.decision import Decision, ending_of
from webhook.review import Request, allowed, denied, patched
from webhook.text import quoted


def encode(request: Request, decision: Decision) -> bytes:
    """The answer to a decision, as the API server wants it."""
    if decision.encoded is not None:  # with a node of its own, and so with a record of its own
        return patched(request.uid, decision.encoded, ending_of(decision))
    if decision.result == "denied":
        return denied(request.uid, quoted_subject(request), decision.ending)
    return allowed(request.uid, decision.ending)


def message_of(request: Request, decision: Decision) -> str:
    """What the user reads of a refusal."""
    return f"{subject_of(request)}: {decision.complaint}"


def subject_of(request: Request) -> str:
    """What is refused, as the user knows it.

    Of a generated name only the beginning: nobody will ever see a pod of this name, and what is the same at every try of a
    controller is one event with a count, not one for each (client-go/tools/record/events_cache.go).
    """
    what = "pod" if request.kind == "Pod" else request.kind
    if _is_chosen(request):
        return f"{what} {quoted(request.name)}"
    return f"{what} generateName {quoted(request.generated)}"


def quoted_subject(request: Request) -> bytes:
    """As the beginning of a JSON string."""
    if request.subject and not _is_chosen(request):
        return request.subject
    return orjson.dumps(subject_of(request))[:-1]


def with_subject(request: Request) -> Request:
    """With what is the same for all pods of a template."""
    return request if _is_chosen(request) else request._replace(subject=quoted_subject(request))


def _is_chosen(request: Request) -> bool:
    """Whether somebody chose the name; else the API server made it, or will."""
    return bool(request.name) and not (request.generated and request.name.startswith(request.generated))
