"""`gpu-admission replay`: recorded pods through another policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

import jsonpatch
import orjson
import typer
from rich.text import Text

from webhook.admission.pods import mutate, validate
from webhook.cli import offline, options
from webhook.cli.cluster.files import read_snapshot
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.options import Format
from webhook.cli.printing import diff, document, table
from webhook.cli.terminal import REFUSED, policy_named, read, say
from webhook.errors import BadInput, GpuAdmissionError
from webhook.kube.pod import DECISION, Pod
from webhook.kube.pod_schema import check
from webhook.kube.yaml import parse_documents
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.text import listed, plural

_AUDIT: Final = "audit.k8s.io/v1"
_STYLES: Final = {"refused": "red", "allowed": "green", "changed": "cyan", "placed": "cyan"}


class Answer(NamedTuple):
    """What a policy makes of a pod: why it is refused, the pod afterwards, and its node."""

    refused: str
    pod: Pod
    node: str


def replay(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="AdmissionReviews, or an audit log of the API server.")],
    policy: Annotated[str, typer.Option(metavar="FILE|default", help="The policy that is tried.")],
    before: Annotated[
        str, typer.Option(metavar="FILE|default", help="The policy that it is compared with.")
    ] = "default",
    cluster: options.Snapshot = None,
    output: options.Output = Format.table,
) -> None:
    """Put recorded pods through another policy: who would be refused, allowed, changed or placed otherwise.

    An audit log has pods where its policy records pod creations at level Request. Exit status 1 if somebody would be refused
    who is not now. Example: `gpu-admission replay audit.log --policy new.yaml --before old.yaml --cluster cluster.json`.
    """
    found, left = recorded(read(file), file)
    if not found:
        raise BadInput(
            f"{file}: no creation of a pod in it{f': {left}' if left else ''}: wanted AdmissionReviews or an audit log"
        )
    snapshot = read_snapshot(cluster) if cluster is not None else None
    answers = [_Judge(policy_named(name), snapshot) for name in (before, policy)]
    told = list(compared(found, *answers))
    if not document(told, output):
        rows = [[f"{t['namespace']}/{t['name']}", Text(t["differs"], _STYLES[t["differs"]]), _why(t)] for t in told]
        if rows:
            table(["POD", "NOW", "WHY"], rows)
        say(f"{plural(len(found), 'pod')}, {len(told)} of them otherwise{f'; {left}' if left else ''}")
    if any(each["differs"] == "refused" for each in told):
        raise typer.Exit(REFUSED)


def recorded(text: bytes, name: str) -> tuple[list[offline.Document], str]:
    """The creations of pods in a record, and what was left out. Raises BadInput where it is none."""
    try:
        values = list(parse_documents(text))
    except ValueError as error:
        raise BadInput(f"{name}: neither YAML nor JSON: {error}") from None
    events = [value for value in values if isinstance(value, dict) and value.get("apiVersion") == _AUDIT]
    pods = [event for event in events if _creates(event)]
    silent = [event for event in pods if not isinstance(event.get("requestObject"), dict)]
    made = [_as_review(event) for event in pods if isinstance(event.get("requestObject"), dict)]
    texts = orjson.dumps([*made, *[value for value in values if value not in events]]) if events else text
    found = [
        d
        for each in _each(texts, bool(events))
        for d in offline.documents(each, name)
        if isinstance(d, offline.Document)
    ]
    left = f"{plural(len(silent), 'event')} without the pod (audit level Metadata)" if silent else ""
    return [d for d in found if d.request.resource == "pods" and d.request.operation == "CREATE"], left


def _each(text: bytes, split: bool) -> Iterator[bytes]:
    yield from (orjson.dumps(value) for value in orjson.loads(text)) if split else (text,)


def _creates(event: dict[str, Any]) -> bool:
    about = event.get("objectRef") or {}
    return event.get("verb") == "create" and about.get("resource") == "pods" and not about.get("subresource")


def _as_review(event: dict[str, Any]) -> dict[str, Any]:
    about, user = event["objectRef"], event.get("user") or {}
    pod = {**event["requestObject"], "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"namespace": about.get("namespace"), **(pod.get("metadata") or {})}
    request = {"uid": event.get("auditID") or "recorded", "operation": "CREATE", "namespace": about.get("namespace")}
    request |= {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
    }
    request |= {"userInfo": {"username": user.get("username", ""), "groups": user.get("groups") or []}, "object": pod}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


class _Judge:
    """One policy in one cluster. Nothing is reserved: every pod meets the same cluster."""

    def __init__(self, policy: Policy, snapshot: Snapshot | None) -> None:
        self._policy = policy
        state = snapshot.state if snapshot is not None else offline.load_state(None)
        self._view, self._placer = state.view(0.0), Placer(state)

    def of(self, document: offline.Document) -> Answer:
        """Raises GpuAdmissionError where it is no pod."""
        request = document.request
        check(request.object or {})
        first = mutate(request, self._policy, self._view, self._placer)
        pod = orjson.loads(document.original)
        if first.patch is not None:
            pod = jsonpatch.apply_patch(pod, orjson.loads(first.patch))
        judged = (
            first if first.message else validate(request._replace(object=pod), self._policy, self._view, self._placer)
        )
        node = first.placement.nodes[0].node if first.placement is not None and first.placement.nodes else ""
        return Answer(judged.message if judged.result == "denied" else "", pod, node)


def compared(documents: list[offline.Document], before: _Judge, after: _Judge) -> Iterator[dict[str, Any]]:
    """What is otherwise, one entry for each pod of which anything is."""
    for each in documents:
        request = each.request
        head = {"namespace": request.namespace, "name": request.name or request.generated}
        try:
            was, now = before.of(each), after.of(each)
        except GpuAdmissionError as error:
            yield head | {"differs": "refused", "message": str(error), "diff": []}
            continue
        if bool(was.refused) != bool(now.refused):
            yield head | {
                "differs": "refused" if now.refused else "allowed",
                "message": now.refused or was.refused,
                "diff": [],
            }
        elif not now.refused and (lines := list(diff(_plain(was.pod), _plain(now.pod)))):
            differs = "changed" if was.node == now.node else "placed"
            yield head | {
                "differs": differs,
                "message": f"{was.node or 'none'} → {now.node or 'none'}" if differs == "placed" else "",
                "diff": lines,
            }


def _plain(pod: Pod) -> Pod:
    """Without the decision, which names the policy."""
    annotations = {k: v for k, v in (pod["metadata"].get("annotations") or {}).items() if k != DECISION}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def _why(told: dict[str, Any]) -> str:
    return told["message"] or listed([line for line in told["diff"] if line[:1] in "+-"], 4)
