"""The Kubernetes Events about decisions, for people who run `kubectl describe`.

An Event on the controller of refused pods has the first finding in full. The controller's own Event (FailedCreate) has all
findings on many lines; after 25 Events its client sends only one in five minutes, and it merges different ones
(client-go tools/record/events_cache.go). Under a profile in dry run, an Event there or on the pod says what would be done. An
Event on a pod that the scheduler bound to another node than the first ranked one says why, as far as that is known.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from webhook.admission.context import denials
from webhook.admission.decision import Decision
from webhook.admission.words import binding, finding_line, why_elsewhere
from webhook.kube.pod import Pod, controller_reference
from webhook.kube.record import ranked_nodes
from webhook.kube.review import Request
from webhook.state.state import ClusterState
from webhook.text import plural, printable

REFUSED: Final = "PodRefused"
WOULD: Final = ("PodWouldBeRefused", "PodWouldBeChanged")
"""Of pods under a profile in dry run."""
BOUND_ELSEWHERE: Final = "BoundElsewhere"
MAX_MESSAGE: Final = 4096
"""Characters in a message; a finding has some hundreds. The API server has no limit for Events of core/v1, and 1,024 bytes for
those of events.k8s.io/v1 (pkg/apis/core/validation/events.go), which is why ours are of core/v1."""
_API_VERSION = re.compile(r"([a-z0-9.-]{1,253}/)?v[a-z0-9]{1,62}", re.ASCII)
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}", re.ASCII)
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_UID = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)


class Involved(NamedTuple):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Event(NamedTuple):
    """The content of an Event. `type` and `reason` are those of the Kubernetes API."""

    involved: Involved
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    repeats: bool = False
    """The same Event may happen again to the object, so it has a count."""


def refused(request: Request, decision: Decision) -> Event | None:
    """The Event on the controller of a refused pod; under a profile in dry run, the Event on the controller or the pod
    about what would be done. None for a dry run of the client, and for a pod without a controller, whose author gets the
    refusal directly."""
    dry_run = decision.quiet
    if request.dry_run or request.object is None or not (dry_run or decision.result == "denied"):
        return None
    if (request.resource, request.operation, request.subresource) != ("pods", "CREATE", ""):
        return None
    reference = controller_reference(request.object)
    if reference is None and dry_run:  # the validating hook knows the uid of a new pod
        reference = {"apiVersion": "v1", "kind": "Pod", **request.object["metadata"]}
    involved = reference and _involved(request.namespace, reference)
    denied = denials(decision.findings)
    if not involved or not (denied or decision.would):
        return None
    who = "it" if involved.kind == "Pod" else "its pods"
    policy = f"(policy {decision.policy}{f', profile {decision.profile} in dry run' if dry_run else ''})"
    if not denied:
        return Event(involved, "Normal", WOULD[1], _bounded(f"{who} would {decision.would} {policy}"), repeats=True)
    verb = "would be" if dry_run else "are"
    message = f"{who} {verb} refused: {finding_line(denied[0].unit, denied[0].finding)} {policy}"
    if more := len(denied) - 1:
        message += f" and {plural(more, 'more problem')}: gpu-admission try -f FILE shows all"
    return Event(involved, "Warning", WOULD[0] if dry_run else REFUSED, _bounded(message), repeats=True)


def bound_elsewhere(pod: Pod, state: ClusterState) -> Event | None:
    """The Event on a pod that was just bound. None if its node is the first of its ranked nodes, or if it has none.

    `state` includes the pod. It may be slightly older or newer than what the scheduler knew.
    """
    bound, ranked = pod["spec"].get("nodeName"), ranked_nodes(pod)
    if not bound or not ranked or bound == ranked[0]:
        return None
    metadata = pod["metadata"]
    involved = _involved(metadata.get("namespace", ""), {"apiVersion": "v1", "kind": "Pod", **metadata})
    if involved is None:
        return None
    _, message = binding(ranked, bound, why_elsewhere(pod, ranked[0], state))
    return Event(involved, "Normal", BOUND_ELSEWHERE, _bounded(message))


def _involved(namespace: str, reference: Mapping[str, Any]) -> Involved | None:
    """The object that a reference names. None if a part has not the form that the API server accepts: a tenant may have
    written it."""
    parts = [reference.get(key) for key in ("apiVersion", "kind", "name", "uid")]
    for pattern, part in zip((_API_VERSION, _KIND, _NAME, _UID), parts, strict=True):
        if not isinstance(part, str) or not pattern.fullmatch(part):
            return None
    api_version, kind, name, uid = map(str, parts)
    return Involved(api_version, kind, namespace, name, uid)


def _bounded(message: str) -> str:
    line = printable(message[:MAX_MESSAGE])
    return f"{line}…" if len(message) > MAX_MESSAGE else line
