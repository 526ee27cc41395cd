"""The envelope: AdmissionReview v1 to Request, and the four answers. Nothing here decides anything.

Source: k8s.io/api admission/v1/types.go; what the API server accepts as an answer: k8s.io/apiserver
pkg/admission/plugin/webhook/request/admissionreview.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import orjson

from webhook.bounds import DENSEST, MOST_GROUPS
from webhook.errors import BadReview
from webhook.text import kind, quoted

API_VERSION: Final = "admission.k8s.io/v1"
_OPERATIONS = frozenset(("CREATE", "UPDATE", "DELETE", "CONNECT"))
_LONGEST_UID = 128


class Request(NamedTuple):
    """One question of the API server. `object` and `old` are plain dicts as they came; `old` where there is one.

    `name`: also where only the object has it; `generated`: its `generateName`. `subject`: how a refusal of one
    with a generated name begins, as the beginning of a JSON string, where somebody has worked that out.
    """

    uid: str
    kind: str
    group: str
    resource: str
    subresource: str
    operation: str
    namespace: str
    name: str
    user: str
    groups: tuple[str, ...]
    dry_run: bool
    object: dict[str, Any] | None
    old: dict[str, Any] | None
    generated: str = ""
    subject: bytes = b""
    size: int = 0
    """Bytes of the review."""


def parse(body: bytes) -> Request:
    """Raises BadReview, with what was seen and what was wanted."""
    review = _decode(body)
    if review.get("apiVersion") != API_VERSION or review.get("kind") != "AdmissionReview":
        seen = f"apiVersion {quoted(review.get('apiVersion'))}, kind {quoted(review.get('kind'))}"
        raise BadReview(f'wanted apiVersion "{API_VERSION}", kind "AdmissionReview"; saw {seen}')
    request = review.get("request")
    if not isinstance(request, dict):
        raise BadReview(f"request: wanted a map, saw {kind(request)}")
    uid = _string(request, "uid")
    if not uid or len(uid) > _LONGEST_UID:
        raise BadReview(f"request.uid: wanted 1 to {_LONGEST_UID} characters, saw {len(uid)}")
    operation = _string(request, "operation")
    if operation not in _OPERATIONS:
        raise BadReview(f"request.operation: wanted CREATE, UPDATE, DELETE or CONNECT, saw {quoted(operation)}")
    resource_kind, resource, user = _map(request, "kind"), _map(request, "resource"), _map(request, "userInfo")
    groups, dry_run = user.get("groups") or [], request.get("dryRun") or False
    if not isinstance(groups, list):
        raise BadReview(f"request.userInfo.groups: wanted a list, saw {kind(groups)}")
    if len(groups) > MOST_GROUPS:
        raise BadReview(f"request.userInfo.groups: wanted at most {MOST_GROUPS}, saw {len(groups)}")
    if not isinstance(dry_run, bool):
        raise BadReview(f"request.dryRun: wanted true or false, saw {kind(dry_run)}")
    obj = _map(request, "object")
    name, generated = called(obj, _string(request, "name"))
    return Request(
        uid=uid,
        kind=_string(resource_kind, "kind", "request.kind"),
        group=_string(resource_kind, "group", "request.kind"),
        resource=_string(resource, "resource", "request.resource"),
        subresource=_string(request, "subResource"),
        operation=operation,
        namespace=_string(request, "namespace"),
        name=name,
        user=_string(user, "username", "request.userInfo"),
        groups=tuple([group for group in groups if isinstance(group, str)]),
        dry_run=dry_run,
        object=obj or None,
        old=_map(request, "oldObject") or None,
        generated=generated,
        size=len(body),
    )


def called(obj: dict[str, Any], name: str = "") -> tuple[str, str]:
    """`name` and `generated` of a request for this object. `name`: what the API server says of it."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return name, ""
    own, generated = name or metadata.get("name") or "", metadata.get("generateName") or ""
    return own if isinstance(own, str) else quoted(own).strip('"'), generated if isinstance(generated, str) else ""


def object_of(body: bytes) -> dict[str, Any]:
    """A second copy of the object in a body that `parse` accepted: parsing again is the cheapest deep copy there is."""
    found: dict[str, Any] = orjson.loads(body)["request"]["object"]
    return found


def objects_of(body: bytes) -> list[Any]:
    """The object and the old object of a body that `parse` accepted, as far as there are."""
    request = orjson.loads(body)["request"]
    return [request[key] for key in ("object", "oldObject") if request.get(key)]


def _decode(body: bytes) -> dict[str, Any]:
    nested = body.count(b"{") + body.count(b"[")
    if nested > DENSEST:
        raise BadReview(f"wanted at most {DENSEST} maps and lists in a body, saw {nested}: make the object smaller")
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"the body is not JSON: {error}; {len(body)} bytes were sent") from None
    if not isinstance(review, dict):
        raise BadReview(f"wanted an AdmissionReview, saw {kind(review)}")
    return review


def _string(parent: dict[str, Any], key: str, where: str = "request") -> str:
    value = parent.get(key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise BadReview(f"{where}.{key}: wanted a string, saw {kind(value)}")


def _map(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise BadReview(f"request.{key}: wanted a map, saw {kind(value)}")


# --- answers: made only here, so that status and reason cannot disagree -----------------------------------------------


def warned(warnings: Sequence[str]) -> bytes:
    """What the caller is told, as a field of the answer."""
    return b',"warnings":' + orjson.dumps(warnings) if warnings else b""


def ending(said: bytes = b"", record: bytes = b"") -> bytes:
    """The end of an answer. `said`: see `warned`; `record`: for the audit log, as a JSON string."""
    return b'%b,"auditAnnotations":{"decision":%b}}}' % (said, record) if record else said + b"}}"


# Put together by hand: most of it is JSON already, and would only be copied once more.


def allowed(uid: str, end: bytes = b"}}") -> bytes:
    return b"".join((_START, orjson.dumps(uid), b',"allowed":true', end))


def patched(uid: str, encoded: bytes, end: bytes = b"}}") -> bytes:
    """Allowed with a JSON Patch, in base64. Not for an empty one: the API server wants patch and patchType both or neither."""
    start = b',"allowed":true,"patchType":"JSONPatch","patch":"'
    return b"".join((_START, orjson.dumps(uid), start, encoded, b'"', end))


def denied(uid: str, subject: bytes, end: bytes) -> bytes:
    """Refused. The client gets 403 and `admission webhook "<name>" denied the request: <subject><complaint>`.

    `subject` is the beginning of a JSON string. `end` begins with the rest of it, which is long, and the same for pods that
    are alike; then it ends the status, and the answer.
    """
    start = b',"allowed":false,"status":{"code":403,"reason":"Forbidden","message":'
    return b"".join((_START, orjson.dumps(uid), start, subject, end))


_START: Final = b'{"apiVersion":"%b","kind":"AdmissionReview","response":{"uid":' % API_VERSION.encode()
