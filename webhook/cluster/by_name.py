"""Objects that are only looked up by their name: labels of namespaces, PriorityClasses, the runtimes of RuntimeClasses, and
volumes with their claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import intern
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from webhook.framework.cluster_view import PriorityClass

T = TypeVar("T")
_PLACES: Final = frozenset(
    (
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
    )
)


class ByName(dict[str, T]):
    """By name, with the namespace where it has one, what `read` keeps of an object."""

    def __init__(self, read: Callable[[Mapping[str, Any]], T]) -> None:
        super().__init__()
        self._read = read
        self.version = 0
        """Rises with each change."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """An object is new, or has changed."""
        metadata = obj["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
        self[name] = self._read(obj)
        self.version += 1

    def gone(self, name: str) -> None:
        self.pop(name, None)
        self.version += 1


def labels(namespace: Mapping[str, Any]) -> Mapping[str, str]:
    return namespace["metadata"].get("labels") or {}


def handler(runtime_class: Mapping[str, Any]) -> str:
    return str(runtime_class.get("handler") or "")


def priority_class(obj: Mapping[str, Any]) -> PriorityClass:
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    return PriorityClass(obj["metadata"]["name"], int(obj.get("value") or 0), policy, bool(obj.get("globalDefault")))


class Claim(NamedTuple):
    volume: str
    """The PersistentVolume that it is bound to; "" where it is not."""
    waits_for: str
    """The StorageClass of which it is to get a volume, where it is not bound."""


class Volume(NamedTuple):
    terms: str
    """Node selector terms as JSON, one of which its node must meet; "" where every node will do."""
    offered: str
    """The StorageClass whose claims may bind it; "" where it is bound."""


def claim(obj: Mapping[str, Any]) -> Claim:
    spec = obj.get("spec") or {}
    volume = str(spec.get("volumeName") or "")
    return Claim(volume, "" if volume else str(spec.get("storageClassName") or ""))


def volume(obj: Mapping[str, Any]) -> Volume:
    spec = obj.get("spec") or {}
    return Volume(_terms(obj), "" if spec.get("claimRef") else str(spec.get("storageClassName") or ""))


def _terms(volume: Mapping[str, Any]) -> str:
    """Those of its node affinity; else of its labels for a zone and a region, as old volumes have them (VolumeZone)."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    terms = required.get("nodeSelectorTerms")
    if not terms:
        places = {key: value for key, value in labels(volume).items() if key in _PLACES}
        if not places:
            return ""
        terms = [
            {
                "matchExpressions": [
                    {"key": key, "operator": "In", "values": value.split("__")} for key, value in sorted(places.items())
                ]
            }
        ]
    return intern(orjson.dumps(terms).decode())
