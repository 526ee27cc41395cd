"""LimitRanges by namespace: which amounts a pod gets that states none, and which are refused.

Follows LimitRange of core/v1 with SetDefaults_LimitRangeItem (pkg/apis/core/v1/defaults.go), which a file may lack: the largest
limit is the default limit, and that or the smallest request is the default request.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from webhook.cluster.grouped import Grouped, full_name
from webhook.framework.cluster_view import LimitRange, Limits

_MAX_BYTES: Final = 8192
"""Maximum size of `spec.limits` as JSON. Pods are judged without a larger LimitRange."""
_MAX_READ: Final = 8
"""Maximum number of LimitRanges of one namespace that a pod is judged by, the first by name."""
_KINDS: Final = ("Container", "Pod")


class LimitRanges(Grouped[str, str, LimitRange]):
    """The LimitRanges by namespace and name, and by namespace."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A LimitRange was added or changed. Raises TypeError or AttributeError if it is malformed."""
        limits = (obj.get("spec") or {}).get("limits") or ()
        if len(orjson.dumps(limits)) > _MAX_BYTES:
            self.gone(full_name(obj))
            return
        self.put(full_name(obj), obj["metadata"]["namespace"], _read(obj["metadata"]["name"], limits))

    def of(self, namespace: str) -> Sequence[LimitRange]:
        """Those of a namespace by name. The API server applies them in no order."""
        found = self.groups.get(namespace, {})
        return [found[name] for name in sorted(found)[:_MAX_READ]]


def _read(name: str, items: Sequence[Mapping[str, Any]]) -> LimitRange:
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    entries = []
    for item in items:
        kind, least, most = str(item.get("type")), dict(item.get("min") or {}), dict(item.get("max") or {})
        if kind not in _KINDS:
            continue
        entries.append(Limits(kind, least, most, dict(item.get("maxLimitRequestRatio") or {})))
        if kind == "Container":
            default = {**most, **(item.get("default") or {})}
            limits |= default
            requests |= {**least, **default, **(item.get("defaultRequest") or {})}
    return LimitRange(name, limits, requests, tuple(entries))
