"""HorizontalPodAutoscalers: which workload each one scales, and to how many replicas at most.

Follows autoscaling/v2: `scaleTargetRef` names the group, kind and name of an object in the same namespace. Only targets
in the group apps are kept. With another group, or none, the autoscaler finds no object of these kinds and does nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.framework.cluster_view import Autoscaler

_KINDS: Final = frozenset(("Deployment", "ReplicaSet", "StatefulSet"))
_MAX_NAME: Final = 253
"""Maximum length of an object's name (IsDNS1123Subdomain). The API server does not bound the name in a `scaleTargetRef`."""
_MAX_AUTOSCALERS: Final = 100
"""Maximum number of autoscalers of one workload. One is normal; tenants may create any number."""


class _Target(NamedTuple):
    namespace: str
    kind: str
    name: str


class Autoscalers:
    """Autoscalers by namespace and name, and by the workload that they scale."""

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[_Target, Autoscaler]] = {}
        self._by_target: dict[_Target, set[Autoscaler]] = {}

    def seen(self, obj: Mapping[str, Any]) -> None:
        """An autoscaler was added or changed. Raises TypeError, LookupError or AttributeError if it is malformed."""
        metadata, spec = obj["metadata"], obj["spec"]
        name, max_replicas, reference = metadata["name"], spec["maxReplicas"], spec["scaleTargetRef"]
        if not isinstance(max_replicas, int):
            raise TypeError("spec.maxReplicas: wanted a whole number")
        target = _Target(metadata["namespace"], reference["kind"], reference["name"])
        in_apps = (reference.get("apiVersion") or "").startswith("apps/")
        kept = in_apps and target.kind in _KINDS and len(target.name) <= _MAX_NAME
        key, autoscaler = f"{target.namespace}/{name}", Autoscaler(name, max_replicas)
        self.gone(key)
        if kept:
            self._by_name[key] = target, autoscaler
            self._by_target.setdefault(target, set()).add(autoscaler)

    def gone(self, name: str) -> None:
        """An autoscaler was deleted. `name`: namespace and name, as `team-a/chat`."""
        entry = self._by_name.pop(name, None)
        if entry is None:
            return
        target, autoscaler = entry
        self._by_target[target].discard(autoscaler)
        if not self._by_target[target]:
            del self._by_target[target]

    def __iter__(self) -> Iterator[str]:
        """Namespace and name of each autoscaler."""
        return iter(self._by_name)

    def scaling(self, namespace: str, kind: str, name: str) -> Autoscaler | None:
        """The autoscaler of a workload with the highest maximum; ties are broken by name.

        None if there is none, or more than `_MAX_AUTOSCALERS`.
        """
        autoscalers = self._by_target.get(_Target(namespace, kind, name))
        if not autoscalers or len(autoscalers) > _MAX_AUTOSCALERS:
            return None
        return min(autoscalers, key=lambda autoscaler: (-autoscaler.max_replicas, autoscaler.name))
