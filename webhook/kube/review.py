"""Parses an AdmissionReview v1 to a `Request` and refuses reviews that no API server sends.

Source: k8s.io/api admission/v1/types.go.
"""

from typing import Any, Final, NamedTuple

import orjson

from webhook.errors import BadReview
from webhook.kube.bounds import MAX_COLLECTIONS, MAX_GROUPS
from webhook.text import json_type, quoted

API_VERSION: Final = "admission.k8s.io/v1"
_OPERATIONS = frozenset(("CREATE", "UPDATE", "DELETE", "CONNECT"))
_MAX_UID = 128


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
    request = review.get("request")
    if not isinstance(request, dict):
        raise BadReview(f"request: wanted a map, saw {json_type(request)}")
    uid = _string(request, "uid")
    if not uid or len(uid) > _MAX_UID:
        raise BadReview(f"request.uid: wanted 1 to {_MAX_UID} characters, saw {len(uid)}")
    operation = _string(request, "operation")
    if operation not in _OPERATIONS:
        raise BadReview(f"request.operation: wanted CREATE, UPDATE, DELETE or CONNECT, saw {quoted(operation)}")
    resource_kind, resource, user = _map(request, "kind"), _map(request, "resource"), _map(request, "userInfo")
    groups, dry_run = user.get("groups") or [], request.get("dryRun") or False
    if not isinstance(groups, list):
        raise BadReview(f"request.userInfo.groups: wanted a list, saw {json_type(groups)}")
    if len(groups) > MAX_GROUPS:
        raise BadReview(f"request.userInfo.groups: wanted at most {MAX_GROUPS}, saw {len(groups)}")
    if not isinstance(dry_run, bool):
        raise BadReview(f"request.dryRun: wanted true or false, saw {json_type(dry_run)}")
    obj = _map(request, "object")
    old = _map(request, "oldObject") if operation == "UPDATE" else {}
    name, generated = names_of(obj, _string(request, "name"))
    parsed = Request(
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
        old=old or None,
        generated=generated,
        size=len(body),
    )
    _check_consistency(parsed, _string(resource, "group", "request.resource"))
    return parsed


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
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    version = f"{request.group}/" if request.group else ""
    api_version = obj.get("apiVersion")
    name, generated = names_of(obj, request.name)
    for field, seen, wanted in (
        ("kind", obj.get("kind"), request.kind),
        ("metadata.namespace", metadata.get("namespace"), request.namespace),
        ("metadata.name", metadata.get("name"), name),
        ("metadata.generateName", metadata.get("generateName"), generated),
    ):
        if not seen or seen == wanted:
            continue
        if not isinstance(seen, str):
            raise BadReview(f"request.{where}.{field}: wanted a string, saw {json_type(seen)}")
        raise BadReview(f"request.{where}.{field}: saw {quoted(seen)}, wanted {quoted(wanted)} as in the request")
    if api_version and not (
        isinstance(api_version, str) and api_version.startswith(version) and api_version.count("/") == bool(version)
    ):
        raise BadReview(
            f"request.{where}.apiVersion: saw {quoted(api_version)}, wanted one of group {quoted(request.group)}"
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


def _string(parent: dict[str, Any], key: str, where: str = "request") -> str:
    value = parent.get(key)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise BadReview(f"{where}.{key}: wanted a string, saw {json_type(value)}")


def _map(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    raise BadReview(f"request.{key}: wanted a map, saw {json_type(value)}")
