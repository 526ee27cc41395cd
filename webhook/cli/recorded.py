"""Reads recorded requests to create pods from a file: AdmissionReviews, or the audit log of an API server.

An audit event has the object as the client sent it, before admission, if the audit policy has the level Request or above
(k8s.io/apiserver pkg/apis/audit/v1/types.go).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from webhook.cli.manifests import Planned, planned_in
from webhook.cli.terminal import read
from webhook.errors import BadInput
from webhook.kube.review import Request
from webhook.policy.model import Policy

_AUDIT: Final = b'"audit.k8s.io/'
_DONE: Final = "ResponseComplete"
_NO_OBJECT: Final = "pods without the object: the audit policy must log them at level Request"


class Recorded:
    """The requests of one file. `policy` says which custom resources are workloads."""

    def __init__(self, file: str, policy: Policy) -> None:
        self.left_out = Counter[str]()
        """How many requests were left out, by the reason in words."""
        self.errors: list[str] = []
        """A message for each entry that could not be read."""
        self._file, self._policy = file, policy

    def requests(self) -> Iterator[tuple[str, Request]]:
        """Each request to create a pod, with its place in the file. Fills `left_out` and `errors` on the way. Raises BadInput
        if the file cannot be read."""
        text = read(self._file)
        if _AUDIT in text.lstrip().partition(b"\n")[0]:
            yield from self._of_log(text)
        else:
            yield from self._of_reviews(planned_in(text, self._file, self._policy, None))

    def _of_reviews(self, planned: Iterator[Planned | BadInput]) -> Iterator[tuple[str, Request]]:
        for plan in planned:
            if isinstance(plan, BadInput):
                self.errors.append(str(plan))
                continue
            request = plan.document.request
            if not plan.of.startswith("pod/"):
                self.left_out["workloads: their pods are recorded themselves"] += 1
            elif request.operation != "CREATE" or request.subresource:
                self.left_out["requests that create no pod"] += 1
            else:
                yield plan.document.where, request

    def _of_log(self, text: bytes) -> Iterator[tuple[str, Request]]:
        for number, line in enumerate(text.splitlines(), 1):
            where = f"{self._file}: line {number}"
            try:
                event = orjson.loads(line) if line.strip() else {}
            except orjson.JSONDecodeError as error:
                self.errors.append(f"{where}: not JSON: {error}")
                continue
            items = event.get("items") if isinstance(event, dict) else None  # of an EventList
            for item in items if isinstance(items, list) else [event]:
                if isinstance(item, dict):
                    yield from self._of_event(item, where)

    def _of_event(self, event: Mapping[str, Any], where: str) -> Iterator[tuple[str, Request]]:
        about, user = [value if isinstance(value := event.get(key), dict) else {} for key in ("objectRef", "user")]
        if not event or event.get("stage") not in (None, _DONE):
            return
        if event.get("verb") != "create" or about.get("resource") != "pods" or about.get("subresource"):
            self.left_out["requests that create no pod"] += 1
        elif "dryRun=" in str(event.get("requestURI")):
            self.left_out["dry runs"] += 1
        elif not isinstance(event.get("requestObject"), dict):
            self.left_out[_NO_OBJECT] += 1
        else:
            pod = orjson.dumps({"apiVersion": "v1", "kind": "Pod", **event["requestObject"]})
            groups = user.get("groups")
            groups = tuple(map(str, groups)) if isinstance(groups, list) else ()
            planned = planned_in(pod, where, self._policy, about.get("namespace"))
            for place, request in self._of_reviews(planned):
                yield place, request._replace(user=str(user.get("username") or ""), groups=groups)
