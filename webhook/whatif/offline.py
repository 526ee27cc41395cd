"""Decides on pods from files with the webhook's own code, without a server.

Pods are decided on one after another with the same cluster state. The node chosen for a pod is reserved before the next pod, as
on a server.
"""

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import jsonpatch
import orjson

from webhook.admission.context import MAX_FINDINGS, subject_of
from webhook.admission.decision import Decision, UnitFinding
from webhook.admission.pods import mutate, validate
from webhook.errors import BadInput, BadReview, PolicyError
from webhook.feeds.policy import shipped_policy
from webhook.framework.as_stored import UNIT, as_stored
from webhook.framework.interface import Finding
from webhook.framework.limit_ranges import beyond_limits
from webhook.kube import review
from webhook.kube.pod import PROFILE_LABEL, Pod
from webhook.kube.pod_schema import check
from webhook.kube.yaml import items_of, parse_documents
from webhook.placement.placer import Placer
from webhook.policy.loader import KEY
from webhook.policy.model import Policy
from webhook.policy.written_for import PROGRAM, later_version
from webhook.state.state import ClusterState
from webhook.state.view import StateView
from webhook.text import json_type, quoted

_REVIEW = "AdmissionReview"
_DEFAULT_NAMESPACE = "default"
_TIMEOUT, _MAX_BYTES = 10.0, 50_000_000
"""Seconds and bytes for what an address answers."""
_COSTLIEST = 100
"""What a command may find out about devices, in decisions of the costliest kind: some seconds in all."""


def read(file: str) -> bytes:
    """The content of a file or an address, or of stdin for `-`. Raises BadInput."""
    try:
        if file.startswith(("http://", "https://")):
            with urlopen(file, timeout=_TIMEOUT) as answer:  # noqa: S310  one of these two schemes
                return bytes(answer.read(_MAX_BYTES))
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        raise BadInput(f"{file}: cannot be read: {why}. Give a file, or - for stdin") from None


class Document(NamedTuple):
    """One object of a file, as the request that would create it, or one AdmissionReview of a file."""

    where: str
    """Its place in messages: the file, and the position in it."""
    request: review.Request
    original: bytes
    """The object as it was read, as JSON."""
    plain: bool = False
    """True for an object, false for an AdmissionReview. Both hooks are asked about an object, the mutating one first."""
    unplaced: bool = False
    """True for an object that names no namespace, if none was given for it."""
    refusals: tuple[Finding, ...] = ()
    """Why the API server refuses the pod before it asks either hook, as far as that is known (`as_new`)."""


def load_policy(text: str | bytes | None = None) -> Policy:
    """The policy in `text`, which is a policy or a ConfigMap with one; with None the shipped policy. Raises PolicyError."""
    if text is None:
        return _shipped()
    unwrapped = _unwrapped(text.encode() if isinstance(text, str) else text)
    try:
        return Policy.load(unwrapped)
    except PolicyError as error:
        if later := later_version(unwrapped.decode(errors="replace")):
            seen = f"it is for gpu-admission {later}, and this command is {PROGRAM}: use the command of that version"
            raise PolicyError([seen, *error.problems], later) from None
        raise


@cache  # a command may ask for it several times
def _shipped() -> Policy:
    return Policy.load(shipped_policy())


def policy_named(name: str | None) -> Policy:
    """The policy of a file, or of stdin for `-`; the shipped one for `default` or None. Raises BadInput, or a PolicyError whose
    problems begin with the file's name."""
    try:
        return load_policy(None if name in (None, "default") else read(str(name)))
    except PolicyError as error:
        raise PolicyError([f"{name}: {problem}" for problem in error.problems], error.later) from None


def _unwrapped(text: bytes) -> bytes:
    """The policy in a ConfigMap; a text that is not a ConfigMap is returned as it is."""
    if b"ConfigMap" not in text:
        return text
    try:
        objects = list(parse_documents(text))
    except ValueError:
        return text
    if len(objects) != 1 or not isinstance(objects[0], dict) or objects[0].get("kind") != "ConfigMap":
        return text
    data = objects[0].get("data")
    policy = data.get(KEY) if isinstance(data, dict) else None
    if not isinstance(policy, str):
        raise PolicyError([f"the ConfigMap has no key {KEY}: put the policy there"])
    return policy.encode()


def new_state() -> ClusterState:
    """A state that was never filled, so that no node is chosen, and never counts as out of date. What a command finds out with it
    about devices is bounded: tenants write the claims, and a file may be from anybody."""
    state = ClusterState(max_age=float("inf"))
    state.nodes.devices.end_after(_COSTLIEST)
    return state


def documents(text: str | bytes, name: str) -> Iterator[Document | BadInput]:
    """Parse objects, Lists of objects, and AdmissionReviews, in JSON or YAML, any number of documents.

    In place of anything else a BadInput is yielded, so that one bad document does not hide the others.
    Raises BadInput if the text is neither JSON nor YAML.
    """
    position, encoded = 0, text.encode() if isinstance(text, str) else text
    try:
        for position, item in enumerate(chain.from_iterable(map(items_of, parse_documents(encoded))), 1):
            where = f"{name}: document {position}"
            try:
                yield _document(item, where)
            except BadReview as error:
                yield BadInput(f"{where}: {error}")
    except ValueError as error:
        raise BadInput(f"{name}: neither YAML nor JSON: {error}") from None
    if position == 0:
        yield BadInput(f"{name}: no document in it: wanted pods or AdmissionReviews, as YAML or JSON")


def _document(item: Any, where: str) -> Document:
    name_of_kind = item.get("kind") if isinstance(item, dict) else None
    if name_of_kind == _REVIEW:
        request = review.parse_review(_json(item))
        return Document(where, request, _json(request.object))
    version = item.get("apiVersion") if isinstance(item, dict) else None
    version = version if isinstance(version, str) else ""
    if name_of_kind != "Pod" and not (isinstance(name_of_kind, str) and name_of_kind and version):
        seen = f"kind {quoted(name_of_kind)}" if isinstance(item, dict) else json_type(item)
        raise BadReview(f"wanted a Pod or an AdmissionReview, saw {seen}")
    group = version.rpartition("/")[0]
    metadata = item.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    original = _json(item)
    name, generated = review.names_of(item)
    request = review.Request(
        uid=where,
        kind=name_of_kind,
        group="" if name_of_kind == "Pod" else group,
        resource=f"{name_of_kind.lower()}s",
        subresource="",
        operation="CREATE",
        namespace=namespace if isinstance(namespace, str) and namespace else _DEFAULT_NAMESPACE,
        name=name,
        user="",
        groups=(),
        dry_run=False,
        object=orjson.loads(original),
        old=None,
        generated=generated,
    )
    return Document(where, request, original, plain=True)


def _json(item: Any) -> bytes:
    try:
        return orjson.dumps(item)
    except TypeError as error:  # a YAML date, a non-string key
        raise BadReview(f"not JSON data: {error}") from None


def as_new(document: Document, view: StateView) -> Document:
    """A pod of a file as the API server would bring it to the hooks. An AdmissionReview brings one to which that was done.
    Raises BadReview if it has not the form of a pod."""
    request = document.request
    if not document.plain or request.resource != "pods":
        return document
    stored, refusals = as_stored(check(request.object), request.namespace, view)
    return document._replace(request=request._replace(object=stored), original=orjson.dumps(stored), refusals=refusals)


def refused(request: review.Request, why: Iterable[Finding]) -> Decision | None:
    """The refusal by the API server itself, for these reasons; None without any."""
    findings = tuple([UnitFinding(UNIT, "deny", finding) for finding in islice(why, MAX_FINDINGS)])
    if not findings:
        return None
    said = " ".join([finding.message for _, _, finding in findings])
    return Decision("denied", message=f"{subject_of(request)}: the API server refuses it: {said}", findings=findings)


def refused_by_limits(request: review.Request, pod: Pod, view: StateView) -> Decision | None:
    """The refusal of a pod by a LimitRange. `pod`: as the mutating hook leaves it, if it is asked."""
    return refused(request, beyond_limits(pod, view.limit_ranges(request.namespace)))


def opted_in(namespace: str, view: StateView) -> bool:
    """Whether the API server would ask about pods of this namespace. One that is not known counts as opted in."""
    labels = view.namespace_labels(namespace)
    return labels is None or PROFILE_LABEL in labels


def not_opted_in(namespace: str) -> str:
    label = f"kubectl label namespace {namespace} {PROFILE_LABEL}=default"
    return f"the webhook is not asked: namespace {namespace} has not opted in ({label})"


def ask(
    request: review.Request, policy: Policy, view: StateView, placer: Placer, *, chooses: bool = True
) -> tuple[Decision, Decision, dict[str, Any]]:
    """Ask both hooks about a new pod in the order of the API server: their decisions, and the pod with the mutating hook's patch.
    If that hook refuses the pod, the API server asks no other: both decisions are the same object. No node is reserved.

    `chooses`: whether the mutating hook chooses a node. Raises BadReview.
    """
    pod = request.object or {}
    mutated = mutate(request, policy, view, placer if chooses else None)
    if mutated.result == "denied":
        return mutated, mutated, pod
    pod = patched(pod, mutated)
    return mutated, validate(request._replace(object=pod), policy, view, placer), pod


def patched(pod: dict[str, Any], decision: Decision) -> dict[str, Any]:
    """The object with the patch of the decision, if it has one."""
    if decision.patch is None:
        return pod
    changed: dict[str, Any] = jsonpatch.apply_patch(pod, orjson.loads(decision.patch))
    return changed


def as_submitted(pod: Pod) -> Pod:
    """The pod as its client submitted it: without the fields that the API server and the scheduler set."""
    fields = ("name", "namespace", "labels", "annotations", "ownerReferences")
    metadata = {field: pod["metadata"][field] for field in fields if field in pod["metadata"]}
    spec = {k: v for k, v in pod["spec"].items() if k not in ("nodeName", "priority", "preemptionPolicy")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
