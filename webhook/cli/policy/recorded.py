"""Reads recorded requests: AdmissionReviews, the audit log of an API server, or manifests.

An audit event has the object as the client sent it, before admission, if the audit policy has the level Request or above
(k8s.io/apiserver pkg/apis/audit/v1/types.go).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from webhook.errors import BadInput
from webhook.policy.model import Policy
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.manifests import Planned, planned_in, put_beside, texts_of

_AUDIT: Final = b'"audit.k8s.io/'
_DONE: Final = "ResponseComplete"
_NO_POD: Final = "requests that create no pod"


Entry = Planned | BadInput | str
"""Requests to create pods; or what is wrong with it; or why it is left out."""


def recorded(files: Iterable[str], policy: Policy, snapshot: Snapshot, namespace: str | None = None) -> Iterator[Entry]:
    """The entries of files. `policy` says which custom resources are workloads. `namespace`: of manifests that name none. What
    stands beside these is added to the snapshot. Raises BadInput if a file cannot be read."""
    for file, text in texts_of(files):
        if _AUDIT not in text.lstrip().partition(b"\n")[0]:
            put_beside(snapshot, text, file, namespace)
            yield from _of_reviews(planned_in(text, file, policy, namespace))
        else:
            yield from _of_log(text, file, policy)


def _of_log(text: bytes, file: str, policy: Policy) -> Iterator[Entry]:
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{file}: line {number}"
        try:
            event = orjson.loads(line) if line.strip() else {}
        except orjson.JSONDecodeError as error:
            yield BadInput(f"{where}: not JSON: {error}")
            continue
        items = event.get("items") if isinstance(event, dict) else None  # of an EventList
        for item in items if isinstance(items, list) else [event]:
            try:
                yield from _of_event(item, where, policy) if isinstance(item, dict) else ()
            except (TypeError, ValueError) as error:  # orjson refuses what is nested too deeply
                yield BadInput(f"{where}: {error}")


def _of_reviews(planned: Iterator[Planned | BadInput]) -> Iterator[Entry]:
    for plan in planned:
        if isinstance(plan, BadInput):
            yield plan
            continue
        request = plan.document.request
        if plan.reviewed and not plan.of.startswith("pod/"):
            yield "workloads: their pods are recorded themselves"
        elif request.operation != "CREATE" or request.subresource:
            yield _NO_POD
        else:
            yield plan


def _of_event(event: Mapping[str, Any], where: str, policy: Policy) -> Iterator[Entry]:
    about, user = [value if isinstance(value := event.get(key), dict) else {} for key in ("objectRef", "user")]
    if not event or event.get("stage") not in (None, _DONE):
        return
    if event.get("verb") != "create" or about.get("resource") != "pods" or about.get("subresource"):
        yield _NO_POD
    elif "dryRun=" in str(event.get("requestURI")):
        yield "dry runs"
    elif not isinstance(event.get("requestObject"), dict):
        yield "pods without the object: the audit policy must log them at level Request"
    else:
        pod = orjson.dumps({"apiVersion": "v1", "kind": "Pod", **event["requestObject"]})
        groups = user.get("groups")
        groups = tuple(map(str, groups)) if isinstance(groups, list) else ()
        for entry in _of_reviews(planned_in(pod, where, policy, about.get("namespace"))):
            if isinstance(entry, Planned):
                request = entry.document.request._replace(user=str(user.get("username") or ""), groups=groups)
                yield entry._replace(document=entry.document._replace(request=request))
            else:
                yield entry
