"""What is answered to a decision, and how a refusal begins."""

from __future__ import annotations

import orjson

from webhook.decision import Decision, ending_of
from webhook.pod import display_name
from webhook.review import Request, allowed, denied, patched
from webhook.text import LONGEST_QUOTE


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
    """What is refused, as the user knows it."""
    what, obj = "pod" if request.kind == "Pod" else request.kind, request.object
    return f"{what} {display_name({'metadata': {'name': request.name}} if obj is None else obj)}"


def quoted_subject(request: Request) -> bytes:
    """As the beginning of a JSON string."""
    obj = request.object
    name = request.name if obj is None else (obj.get("metadata") or {}).get("name")
    if request.kind == "Pod" and isinstance(name, str) and 0 < len(name) <= LONGEST_QUOTE and name.isprintable():
        text = orjson.dumps(name)
        if len(text) == len(name) + 2:  # plain: what follows takes a tenth of the whole answer
            return b'"pod \\"%b\\"' % text[1:-1]
    return orjson.dumps(subject_of(request))[:-1]
