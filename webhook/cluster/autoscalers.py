"""HorizontalPodAutoscalers, as far as they tell how many pods a workload may get: what each one scales, and up to what.

Follows autoscaling/v2: `scaleTargetRef` names the group, kind and name of an object of the same namespace. Only workloads of
the group apps are kept; in another group, or in none, no object of these kinds is found, and the autoscaler does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.framework.cluster_view import Autoscaler

_KINDS: Final = frozenset(("Deployment", "ReplicaSet", "StatefulSet"))
_MAX_NAME: Final = 253
"""No object has a longer one (IsDNS1123Subdomain); a tenant may write one here all the same."""
_MAX_AUTOSCALERS: Final = 100
"""Of one workload, that are looked at. One is right; tenants write them."""


class _Target(NamedTuple):
    namespace: str
    kind: str
    name: str


class Autoscalers:
    """By their names, with the namespace, and by what they scale."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[_Target, Autoscaler]] = {}
        self._by_target: dict[_Target, set[Autoscaler]] = {}

    def seen(self, obj: Mapping[str, Any]) -> None:
        """One is new, or has changed. Raises where it is malformed: TypeError, LookupError, AttributeError."""
        metadata, spec = obj["metadata"], obj["spec"]
        name, max_replicas, reference = metadata["name"], spec["maxReplicas"], spec["scaleTargetRef"]
        if not isinstance(max_replicas, int):
            raise TypeError("spec.maxReplicas: wanted a whole number")
        target = _Target(metadata["namespace"], reference["kind"], reference["name"])
        apps = (reference.get("apiVersion") or "").startswith("apps/")
        ours = apps and target.kind in _KINDS and len(target.name) <= _MAX_NAME
        key, entry = f"{target.namespace}/{name}", (target, Autoscaler(name, max_replicas))
        self.gone(key)
        if ours:
            self._by_name[key] = entry
            self._by_target.setdefault(target, set()).add(entry[1])

    def gone(self, name: str) -> None:
        """`name`: with its namespace, `team-a/chat`."""
        entry = self._by_name.pop(name, None)
        if entry is None:
            return
        target, autoscaler = entry
        self._by_target[target].discard(autoscaler)
        if not self._by_target[target]:
            del self._by_target[target]

    def __iter__(self) -> Iterator[str]:
        """Their names, with the namespace."""
        return iter(self._by_name)

    def scaling(self, namespace: str, kind: str, name: str) -> Autoscaler | None:
        """The one that scales a workload furthest, ties by name. None where there is none, or too many to look at."""
        autoscalers = self._by_target.get(_Target(namespace, kind, name))
        if not autoscalers or len(autoscalers) > _MAX_AUTOSCALERS:
            return None
        return min(autoscalers, key=lambda autoscaler: (-autoscaler.max_replicas, autoscaler.name))
