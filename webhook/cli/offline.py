"""The engine without a server: documents in, decisions out. `gpu-admission mutate` and `validate` call it.

Pods are decided one after another against one state, each choice reserved before the next, as a server would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import jsonpatch
import orjson

from webhook.admission import workloads
from webhook.admission.decision import IGNORED, Decision
from webhook.admission.pods import mutate, validate
from webhook.admission.response import encode
from webhook.cluster.state import ClusterState
from webhook.cluster.state_view import StateView
from webhook.errors import BadInput, BadReview, PolicyError
from webhook.feeds.file import fill
from webhook.kube import review
from webhook.kube.json_patch import apply
from webhook.kube.pod_schema import check
from webhook.kube.yaml import parse_documents
from webhook.placement.placer import Placer
from webhook.policy.loader import KEY
from webhook.policy.model import Policy
from webhook.policy.templates import is_workload
from webhook.server import handlers
from webhook.text import kind, quoted

_REVIEW = "AdmissionReview"
_DEFAULT_NAMESPACE = "default"


class Document(NamedTuple):
    """One pod to decide for. `where` names it in messages: file and position."""

    where: str
    request: review.Request
    original: bytes
    """The pod as it was read, as JSON."""
    plain: bool = False
    """An object, not a review: the API server would ask the mutating hook before the validating one."""
    foreign: bool = False
    """An object of another kind than pods and the workloads that everybody knows; the policy may name it."""


class Result(NamedTuple):
    document: Document
    decision: Decision
    pod: dict[str, Any]
    """The pod as the API server would have it after our patch."""
    answer: bytes
    """The AdmissionReview that a server would have answered."""


def load_policy(text: str | bytes | None = None) -> Policy:
    """A policy, or the ConfigMap that holds one; the shipped policy where `text` is None. Raises PolicyError."""
    if text is None:
        text = files("webhook.defaults").joinpath("policy.yaml").read_bytes()
    return Policy.load(_unwrapped(text.encode() if isinstance(text, str) else text))


def _unwrapped(text: bytes) -> bytes:
    """The policy in a ConfigMap; the text itself where it is none."""
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


def load_state(cluster: Path | None) -> ClusterState:
    """The state that a cluster file describes, always fresh; without a file, one that never becomes fresh.

    Raises BadInput where the file cannot be used.
    """
    state = ClusterState(max_age=float("inf"))
    if cluster is not None:
        fill(state, cluster, 0.0)
    return state


def documents(text: str | bytes, name: str) -> Iterator[Document | BadInput]:
    """Objects, Lists of them and AdmissionReviews, JSON or YAML, any number of documents.

    What is none of these comes out as an error in its place, so that one bad document does not hide the others.
    Raises BadInput where the text is neither JSON nor YAML.
    """
    position = 0
    for parsed in _parsed(text, name):
        for item in _items(parsed):
            position += 1
            where = f"{name}: document {position}"
            try:
                yield _document(item, where)
            except BadReview as error:
                yield BadInput(f"{where}: {error}")
    if position == 0:
        yield BadInput(f"{name}: no document in it: wanted pods or AdmissionReviews, as YAML or JSON")


def _parsed(text: str | bytes, name: str) -> Iterator[Any]:
    try:
        yield from parse_documents(text.encode() if isinstance(text, str) else text)
    except ValueError as error:
        raise BadInput(f"{name}: neither YAML nor JSON: {error}") from None


def _items(parsed: Any) -> list[Any]:
    if not isinstance(parsed, dict) or not isinstance(parsed.get("items"), list):
        return [parsed]
    if parsed.get("kind") == "PodList":  # the API leaves the kind of the items out
        return [{"kind": "Pod", **item} if isinstance(item, dict) else item for item in parsed["items"]]
    return list(parsed["items"]) if str(parsed.get("kind", "")).endswith("List") else [parsed]


def _document(item: Any, where: str) -> Document:
    said = item.get("kind") if isinstance(item, dict) else None
    if said == _REVIEW:
        body = _json(item)
        request = review.parse_review(body)
        return Document(where, request, _json(request.object))
    version = item.get("apiVersion") if isinstance(item, dict) else None
    version = version if isinstance(version, str) else ""
    if said != "Pod" and not (isinstance(said, str) and said and version):
        seen = f"kind {quoted(said)}" if isinstance(item, dict) else kind(item)
        raise BadReview(f"wanted a Pod or an AdmissionReview, saw {seen}")
    group = version.rpartition("/")[0]
    metadata = item.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    original = _json(item)
    name, generated = review.names_of(item)
    request = review.Request(
        uid=where,
        kind=said,
        group="" if said == "Pod" else group,
        resource=f"{said.lower()}s",
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
    return Document(where, request, original, plain=True, foreign=said != "Pod" and not is_workload(group, said))


def _json(item: Any) -> bytes:
    try:
        return orjson.dumps(item)
    except TypeError as error:  # a YAML date, a non-string key
        raise BadReview(f"not JSON data: {error}") from None


class Asked(NamedTuple):
    """What both hooks say of a new pod, one after the other, as the API server asks them."""

    first: Decision
    second: Decision
    """The same where the mutating hook refuses it."""
    pod: dict[str, Any]
    """As the mutating hook leaves it."""


def ask(request: review.Request, policy: Policy, view: StateView, placer: Placer, *, chooses: bool = True) -> Asked:
    """Nothing is reserved. `chooses`: a node. Raises BadReview."""
    pod = request.object or {}
    first = mutate(request, policy, view, placer if chooses else None)
    if first.result == "denied":
        return Asked(first, first, pod)
    if first.patch is not None:
        pod = apply(orjson.loads(first.patch), pod)
    return Asked(first, validate(request._replace(object=pod), policy, view, placer), pod)


DecideDocument = Callable[[Document, Policy, ClusterState, float], Decision]


def decide_mutate(document: Document, policy: Policy, state: ClusterState, now: float) -> Decision:
    return handlers.mutate(document.request, policy, state, Placer(state), now)


def decide_validate(document: Document, policy: Policy, state: ClusterState, now: float) -> Decision:
    """A plain pod is judged as the mutating hook leaves it, as in a cluster; a review just as it is."""
    request, view, placer = document.request, state.view(now), Placer(state)
    if request.resource != "pods":
        early = workloads.mutate(request, policy, view, placer) if document.plain else IGNORED
        return early if early.result == "denied" else workloads.validate(request, policy, view, placer)
    if not document.plain:
        return validate(request, policy, view, placer)
    first, second, _ = ask(request, policy, view, placer)
    ours = second is not first and second is not IGNORED
    return replace(second, warnings=(*first.warnings, *second.warnings)) if ours else second


def run(document: Document, decide: DecideDocument, policy: Policy, state: ClusterState, now: float = 0.0) -> Result:
    """Decide for one document. Raises BadInput where it is not the pod that it says it is."""
    request = document.request
    try:
        if request.resource == "pods" and request.subresource in ("", "ephemeralcontainers") and request.object:
            check(request.object)
        decision = decide(document, policy, state, now)
    except BadReview as error:
        raise BadInput(f"{document.where}: {error}") from None
    pod = orjson.loads(document.original)
    if decision.patch is not None:
        pod = jsonpatch.apply_patch(pod, orjson.loads(decision.patch))
    return Result(document, decision, pod, encode(document.request, decision))
