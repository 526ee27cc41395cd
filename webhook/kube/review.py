"""Parses an AdmissionReview v1 to a `Request` and refuses reviews that no API server sends.

Source: k8s.io/api admission/v1/types.go.
"""

from typing import Any, Final, NamedTuple

import orjson

from webhook.errors import BadReview
from webhook.kube.bounds import MAX_COLLECTIONS, MAX_GROUPS
from webhook.kube.pod_schema import BOOLEAN, STRING, Schema, conform
from webhook.text import json_type, quoted

API_VERSION: Final = "admission.k8s.io/v1"
_OPERATIONS = frozenset(("CREATE", "UPDATE", "DELETE", "CONNECT"))
_MAX_UID = 128
_OBJECT: Final[Schema] = {
    "kind": STRING,
    "apiVersion": STRING,
    "metadata": {"namespace": STRING, "name": STRING, "generateName": STRING},
}
_REQUEST: Final[Schema] = {
    **dict.fromkeys(("uid", "subResource", "operation", "namespace", "name"), STRING),
    "kind": {"kind": STRING, "group": STRING},
    "resource": {"resource": STRING, "group": STRING},
    "userInfo": {"username": STRING, "groups": [STRING]},
    "dryRun": BOOLEAN,
    "object": _OBJECT,
    "oldObject": _OBJECT,
}


class Request(NamedTuple):
    uid: str
    kind: str
    group: str
    resource: str
    subresource: str
    operation: str
    namespace: str
    name: str
    """The name of the object, from the request or else from the object itself."""
    user: str
    groups: tuple[str, ...]
    dry_run: bool
    object: dict[str, Any] | None
    old: dict[str, Any] | None
    """The object before an UPDATE."""
    generated: str = ""
    """`metadata.generateName` of the object."""
    size: int = 0
    """Size of the review in bytes."""


def parse_review(body: bytes) -> Request:
    """The request in the body of a review. Raises BadReview."""
    review = _decode(body)
    if review.get("apiVersion") != API_VERSION or review.get("kind") != "AdmissionReview":
        seen = f"apiVersion {quoted(review.get('apiVersion'))}, kind {quoted(review.get('kind'))}"
        raise BadReview(f'wanted apiVersion "{API_VERSION}", kind "AdmissionReview"; saw {seen}')
    request: Any = review.get("request")
    _bound_groups(request)
    conform(request, _REQUEST, "request")
    uid, operation = request.get("uid") or "", request.get("operation") or ""
    if not 0 < len(uid) <= _MAX_UID:
        raise BadReview(f"request.uid: wanted 1 to {_MAX_UID} characters, saw {len(uid)}")
    if operation not in _OPERATIONS:
        raise BadReview(f"request.operation: wanted CREATE, UPDATE, DELETE or CONNECT, saw {quoted(operation)}")
    kind, resource = request.get("kind") or {}, request.get("resource") or {}
    user, obj = request.get("userInfo") or {}, request.get("object") or {}
    name, generated = names_of(obj, request.get("name") or "")
    parsed = Request(
        uid=uid,
        kind=kind.get("kind") or "",
        group=kind.get("group") or "",
        resource=resource.get("resource") or "",
        subresource=request.get("subResource") or "",
        operation=operation,
        namespace=request.get("namespace") or "",
        name=name,
        user=user.get("username") or "",
        groups=tuple(user.get("groups") or ()),
        dry_run=request.get("dryRun") or False,
        object=obj or None,
        old=(request.get("oldObject") if operation == "UPDATE" else None) or None,
        generated=generated,
        size=len(body),
    )
    _check_consistency(parsed, resource.get("group") or "")
    return parsed


def _bound_groups(request: Any) -> None:
    """Raise BadReview for more groups than are looked at, of any type."""
    user = request.get("userInfo") if isinstance(request, dict) else None
    groups = user.get("groups") if isinstance(user, dict) else None
    if isinstance(groups, list) and len(groups) > MAX_GROUPS:
        raise BadReview(f"request.userInfo.groups: wanted at most {MAX_GROUPS}, saw {len(groups)}")


_POD_SUBRESOURCES = frozenset(("status", "resize", "ephemeralcontainers"))
"""Subresources of a pod whose kind is Pod. Others (binding, eviction, exec) have kinds of their own."""
_UPDATED = _POD_SUBRESOURCES | {"scale"}
"""Subresources that are only updated, never created or deleted."""
_BUILT_IN = frozenset(("", "apps", "batch"))
"""API groups in which each resource name is the kind in lower case with an "s"."""


def _check_consistency(request: Request, group: str) -> None:
    """Raise BadReview for a forged review: one whose fields an API server would never send together.

    `group`: the API group of the resource.
    """
    singular = request.kind.lower()
    same_kind = group == request.group and request.resource in (f"{singular}s", singular)  # the kind Endpoints has an s
    if request.resource == "pods" and request.subresource in _POD_SUBRESOURCES:
        consistent = same_kind
    elif request.subresource:
        consistent = request.resource != "pods" or (group == "" and request.kind != "Pod")
    else:
        consistent = same_kind if {group, request.group} & _BUILT_IN else group == request.group
    if not consistent:
        resource = f"{request.resource}/{request.subresource}".rstrip("/")
        raise BadReview(
            f"request.kind: saw {quoted(request.kind)} of group {quoted(request.group)}, "
            f"wanted the kind of {quoted(resource)} of group {quoted(group)}"
        )
    if request.subresource in _UPDATED and request.operation != "UPDATE":
        raise BadReview(f"request.operation: saw {request.operation} of {request.subresource}, wanted UPDATE")
    if request.operation == "CONNECT" and not request.subresource:
        raise BadReview("request.operation: saw CONNECT without a subresource, wanted CREATE, UPDATE or DELETE")
    for where, obj in (("object", request.object), ("oldObject", request.old)):
        if obj is not None:
            _check_object(request, where, obj)


def _check_object(request: Request, where: str, obj: dict[str, Any]) -> None:
    """Raise BadReview if kind, apiVersion, namespace or name of an object contradict the request."""
    metadata = obj.get("metadata") or {}
    name, version = metadata.get("name"), obj.get("apiVersion")
    for field, seen, wanted in (
        ("kind", obj.get("kind"), request.kind),
        ("metadata.namespace", metadata.get("namespace"), request.namespace),
        ("metadata.name", name, request.name or name),
    ):
        if seen and seen != wanted:
            raise BadReview(f"request.{where}.{field}: saw {quoted(seen)}, wanted {quoted(wanted)} as in the request")
    if version and version.rpartition("/")[0] != request.group:
        raise BadReview(
            f"request.{where}.apiVersion: saw {quoted(version)}, wanted one of group {quoted(request.group)}"
        )


def names_of(obj: dict[str, Any], name: str = "") -> tuple[str, str]:
    """`name` and `generated` of a request for this object. `name`: the name in the request, if it has one."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return name, ""
    name, generated = name or metadata.get("name") or "", metadata.get("generateName") or ""
    return name if isinstance(name, str) else quoted(name).strip('"'), generated if isinstance(generated, str) else ""


def _decode(body: bytes) -> dict[str, Any]:
    if len(body) > MAX_COLLECTIONS and (nested := body.count(b"{") + body.count(b"[")) > MAX_COLLECTIONS:
        raise BadReview(
            f"wanted at most {MAX_COLLECTIONS} maps and lists in a body, saw {nested}: make the object smaller"
        )
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"the body is not JSON: {error}; {len(body)} bytes were sent") from None
    if not isinstance(review, dict):
        raise BadReview(f"wanted an AdmissionReview, saw {json_type(review)}")
    return review
