"""Objects that are looked up by name: namespaces, PriorityClasses, RuntimeClasses, PersistentVolumeClaims and
PersistentVolumes.

Of each object only what admission needs is kept.
"""

from collections.abc import Callable, Mapping
from sys import intern
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from webhook.cluster.grouped import full_name
from webhook.framework.cluster_view import PriorityClass, RuntimeClass

T = TypeVar("T")
_TOPOLOGY_LABELS: Final = frozenset(
    (
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
    )
)
_NARROW: Final = ("ReadWriteOnce", "ReadWriteOncePod")
"""Access modes with which only one node, or only one pod, can use a volume."""


class ByName(dict[str, T]):
    """What `read` keeps of each object, by name; by namespace and name for objects in a namespace."""

    def __init__(self, read: Callable[[Mapping[str, Any]], T]) -> None:
        super().__init__()
        self._read = read

    def seen(self, obj: Mapping[str, Any]) -> None:
        """An object was added or changed."""
        self[full_name(obj)] = self._read(obj)

    def gone(self, name: str) -> None:
        self.pop(name, None)


def labels(namespace: Mapping[str, Any]) -> Mapping[str, str]:
    return namespace["metadata"].get("labels") or {}


def runtime_class(obj: Mapping[str, Any]) -> RuntimeClass:
    scheduling = obj.get("scheduling") or {}
    return RuntimeClass(
        obj["metadata"]["name"],
        str(obj.get("handler") or ""),
        dict(scheduling.get("nodeSelector") or {}),
        tuple(map(dict, scheduling.get("tolerations") or ())),
        dict((obj.get("overhead") or {}).get("podFixed") or {}),
    )


def priority_class(obj: Mapping[str, Any]) -> PriorityClass:
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    return PriorityClass(obj["metadata"]["name"], int(obj.get("value") or 0), policy, bool(obj.get("globalDefault")))


class VolumeClaim(NamedTuple):
    volume: str
    """Name of the PersistentVolume that it is bound to; "" if it is not bound."""
    narrow_access: str
    """`ReadWriteOnce` or `ReadWriteOncePod` if no other access mode lets several nodes use it, else ""."""


def volume_claim(obj: Mapping[str, Any]) -> VolumeClaim:
    """Once bound, a claim has the access modes of its volume, which may be more than it asks for."""
    spec = obj.get("spec") or {}
    modes = (obj.get("status") or {}).get("accessModes") or spec.get("accessModes") or ()
    narrow = next((mode for mode in _NARROW if mode in modes), "") if set(modes) <= set(_NARROW) else ""
    return VolumeClaim(str(spec.get("volumeName") or ""), narrow)


def volume_terms(volume: Mapping[str, Any]) -> str:
    """Node selector terms as JSON, of which a node must match one; "" if any node will do. Those of its node affinity, else
    terms made of its zone and region labels, which older volumes have (VolumeZone)."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    terms = required.get("nodeSelectorTerms")
    if not terms:
        topology = sorted((key, value) for key, value in labels(volume).items() if key in _TOPOLOGY_LABELS)
        if not topology:
            return ""
        terms = [{"matchExpressions": [{"key": k, "operator": "In", "values": v.split("__")} for k, v in topology]}]
    return intern(orjson.dumps(terms).decode())
