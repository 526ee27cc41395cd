"""HorizontalPodAutoscalers: which workload each one scales, and to how many replicas at most.

Follows autoscaling/v2: `scaleTargetRef` names the group, kind and name of an object in the same namespace. Only targets
in the group apps are kept. With another group, or none, the autoscaler finds no object of these kinds and does nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from webhook.cluster.grouped import Grouped, full_name
from webhook.framework.cluster_view import Autoscaler

_KINDS: Final = frozenset(("Deployment", "ReplicaSet", "StatefulSet"))
_MAX_NAME: Final = 253
"""Maximum length of an object's name (IsDNS1123Subdomain). The API server does not bound the name in a `scaleTargetRef`."""
_MAX_AUTOSCALERS: Final = 100
"""Maximum number of autoscalers of one workload. One is normal; tenants may create any number."""


class Autoscalers(Grouped[str, tuple[str, str, str], Autoscaler]):
    """Autoscalers by namespace and name, and by the namespace, kind and name of the workload that they scale."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """An autoscaler was added or changed. Raises TypeError, LookupError or AttributeError if it is malformed."""
        metadata, spec = obj["metadata"], obj["spec"]
        name, max_replicas, reference = metadata["name"], spec["maxReplicas"], spec["scaleTargetRef"]
        if not isinstance(max_replicas, int):
            raise TypeError("spec.maxReplicas: wanted a whole number")
        namespace, kind, of = metadata["namespace"], reference["kind"], reference["name"]
        in_apps = (reference.get("apiVersion") or "").startswith("apps/")
        if in_apps and kind in _KINDS and len(of) <= _MAX_NAME:
            self.put(full_name(obj), (namespace, kind, of), Autoscaler(name, max_replicas))
        else:
            self.gone(full_name(obj))

    def scaling(self, namespace: str, kind: str, name: str) -> Autoscaler | None:
        """The autoscaler of a workload with the highest maximum; ties are broken by name.

        None if there is none, or more than `_MAX_AUTOSCALERS`.
        """
        autoscalers = self.groups.get((namespace, kind, name), {}).values()
        if not autoscalers or len(autoscalers) > _MAX_AUTOSCALERS:
            return None
        return min(autoscalers, key=lambda autoscaler: (-autoscaler.max_replicas, autoscaler.name))
