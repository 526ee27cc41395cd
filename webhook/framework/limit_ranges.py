"""What a LimitRange refuses in a pod, after the webhooks have changed it.

Source: PodValidateLimitFunc in plugin/pkg/admission/limitranger/admission.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from webhook.errors import QuantityError
from webhook.framework.cluster_view import LimitRange, Limits
from webhook.framework.interface import Finding
from webhook.kube.pod import Pod, containers
from webhook.kube.pod_requests import total_requests
from webhook.kube.quantity import milli, quantity_text
from webhook.text import bare, quoted

_FIX: Final = "Ask for that: the namespace has a LimitRange (kubectl describe limits)"
_Amounts = Mapping[str, Any]
"""Quantities by resource."""


def beyond_limits(pod: Pod, limit_ranges: Iterable[LimitRange]) -> Iterator[Finding]:
    """What the API server refuses in a pod that is stored otherwise. Malformed quantities are left out: a rule reports them."""
    for limit_range in limit_ranges:
        for entry in limit_range.entries:
            for path, requests, limits in _checked(pod, entry.of):
                yield from _findings(path, requests, limits, entry, quoted(limit_range.name))


def _checked(pod: Pod, of: str) -> Iterator[tuple[str, _Amounts, _Amounts]]:
    """The field, the requests and the limits of each container, or of the whole pod."""
    if of == "Container":
        for container in containers(pod):
            resources = container.spec.get("resources") or {}
            if container.list_name != "ephemeralContainers":
                yield f"{container.field}.resources", resources.get("requests") or {}, resources.get("limits") or {}
        return
    try:
        yield "spec", _total(pod, "requests"), _total(pod, "limits")
    except QuantityError:
        return


def _total(pod: Pod, part: str) -> dict[str, str]:
    """The sum of one part of the resources of all containers, without overhead."""
    spec = pod["spec"]
    summed = {
        kind: [
            {**each, "resources": {"requests": (each.get("resources") or {}).get(part)}}
            for each in spec.get(kind) or ()
        ]
        for kind in ("containers", "initContainers")
    }
    whole = {"requests": (spec.get("resources") or {}).get(part)}
    total = total_requests({"spec": {**summed, "resources": whole}})
    return {name: quantity_text(name, amount) for name, amount in total.items()}


def _findings(path: str, requests: _Amounts, limits: _Amounts, entry: Limits, name: str) -> Iterator[Finding]:
    whose = f"in LimitRange {name}"
    parts = ("requests", requests), ("limits", limits)
    for resource, least in entry.least.items():
        if resource not in requests:
            yield _finding(path, "requests", resource, None, f"at least {least} {whose}")
        for part, amounts in parts:
            if resource in amounts and _less(amounts[resource], least):
                yield _finding(path, part, resource, amounts[resource], f"at least {least} {whose}")
    for resource, most in entry.most.items():
        if resource not in limits:
            yield _finding(path, "limits", resource, None, f"at most {most} {whose}")
        for part, amounts in parts:
            if resource in amounts and _less(most, amounts[resource]):
                yield _finding(path, part, resource, amounts[resource], f"at most {most} {whose}")
    for resource, ratio in entry.ratio.items():
        request, limit = requests.get(resource), limits.get(resource)
        if not _within(request, limit, ratio):
            yield _finding(path, "limits", resource, limit, f"at most {ratio} times the request {whose}")


def _finding(path: str, part: str, resource: str, amount: Any, wanted: str) -> Finding:
    where = f"{path}.{part}[{bare(resource)}]" if path != "spec" else f"spec.resources.{part}[{bare(resource)}]"
    of = " in all containers" if path == "spec" else ""
    return Finding(where, f"{'none' if amount is None else bare(amount)}{of}", wanted, _FIX)


def _less(one: Any, other: Any) -> bool:
    try:
        return milli(one) < milli(other)
    except QuantityError:
        return False


def _within(request: Any, limit: Any, ratio: Any) -> bool:
    """Whether the limit is at most so many times the request; no without both."""
    try:
        asked, allowed = milli(request or 0), milli(limit or 0)
        return bool(asked and allowed) and allowed * 1000 <= milli(ratio) * asked
    except QuantityError:
        return True
