"""Bounds on the size of an object. They are checked before anything in the object is read.

A tenant writes the object, and the work of the units grows with its lists. Both hooks therefore check the lengths of the lists in
pods, templates and old objects. If an object exceeds a bound, nothing else in it is read.

The largest of 600 published manifests for GPUs has 6 containers, 39 variables, 30 mounts, 15 volumes and 9 kB. Each bound is at
least thirty times as large. A pod that reaches every bound at once takes less than a second (`bench.hostile`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from webhook.kube.pod import CONTAINER_LISTS

MAX_REVIEW_BYTES: Final = 2 << 20
"""Maximum size of a review whose object is read. etcd stores at most 1.5 MiB, and a pod of 100 kB is rare. The worst 2 MiB of
JSON (`{"":{"":…`) take 100 MiB of memory."""
MAX_COLLECTIONS: Final = 500_000
"""Maximum number of maps and lists in a body that is parsed. Each may take 230 bytes of memory for 5 bytes of the body. Objects
from an API server have field names in each map, so 8 MiB of them stay below."""
MAX_GROUPS: Final = 2_000
"""Maximum number of groups of a user. Exemptions compare each of them."""
MAX_PATCH_BYTES: Final = 1 << 16
"""Maximum size of a patch. It takes a few kB, unless it repeats something huge from the pod, such as a label of a megabyte. Each
connection may keep an answer in memory that nobody reads."""
SMALL_REVIEW: Final = 16 << 10
"""Bytes of a review of whose pod only the containers are counted. It holds at most 5,400 entries of other lists, which is about
as much as the bounds allow. Nearly every pod comes in a smaller one."""
_MAX_DEPTH: Final = 100
"""Maps and lists within each other. No Kubernetes type has as many; orjson writes 254, and Python compares some hundreds."""
LIMITS: Final[Mapping[str, int]] = {
    "containers": 256,
    "environment variables": 4096,
    "envFrom": 256,
    "arguments": 4096,
    "ports": 4096,
    "volumeMounts": 2048,
    "volumeDevices": 1024,
    "names of resources": 2048,
    "capabilities": 1024,
    "volumes": 1024,
    "claims": 512,
    "tolerations": 256,
    "entries of the node selector": 256,
    "bytes of affinity": 1 << 16,
    "topologySpreadConstraints": 256,
    "schedulingGates": 256,
    "labels": 1024,
    "annotations": 1024,
    "ownerReferences": 256,
    "bytes of the selector": 1 << 16,
    "templates": 64,
}
"""Maximum number of each in a whole pod; "bytes of the selector" in a workload, and "templates" in one object, which has several
if a template path of the policy contains `*`."""
_ALL_TEMPLATES: Final = 4
"""The templates of one object together may have this many times the bound of one pod."""
_Fields = Mapping[str, str]
"""By the field of a list or map: the bound in LIMITS that its entries count towards."""


def _alike(*names: str) -> _Fields:
    return {name: name for name in names}


_METADATA: Final = _alike("labels", "annotations", "ownerReferences")
_CONTAINERS: Final = dict.fromkeys(CONTAINER_LISTS, "containers")
_SPEC: Final[_Fields] = {
    **_alike("volumes", "tolerations", "topologySpreadConstraints", "schedulingGates"),
    "resourceClaims": "claims",
    "nodeSelector": "entries of the node selector",
    "overhead": "names of resources",
}
_CONTAINER: Final[_Fields] = {
    **_alike("envFrom", "ports", "volumeMounts", "volumeDevices"),
    **dict.fromkeys(("command", "args"), "arguments"),
    "env": "environment variables",
}
_RESOURCES: Final = {**dict.fromkeys(("limits", "requests"), "names of resources"), "claims": "claims"}
_CAPABILITIES: Final = dict.fromkeys(("add", "drop"), "capabilities")


class Excess(NamedTuple):
    """A bound that an object exceeds."""

    field: str
    """The field as kubectl names it, or "object"."""
    number: int
    noun: str
    """The name in LIMITS of the counted things."""
    limit: int


def exceeded_by_size(size: int) -> list[Excess]:
    """The bound that a review of `size` bytes exceeds, if it does."""
    return [Excess("object", size, "bytes in the review", MAX_REVIEW_BYTES)] if size > MAX_REVIEW_BYTES else []


def exceeded_by_pod(pod: Any, review_size: int = MAX_REVIEW_BYTES) -> list[Excess]:
    """The bounds that one pod exceeds, which came in a review of this size. Accepts any JSON value."""
    if review_size > SMALL_REVIEW:
        return _excesses(_counted(pod))
    counts: dict[str, int] = {}
    _count(counts, _CONTAINERS, _map(pod).get("spec"))
    return _excesses(counts)


def exceeded_by_templates(pods: Iterable[Any]) -> list[Excess]:
    """The bounds that the templates of one object exceed, each alone or all together."""
    total: Counter[str] = Counter()
    for pod in pods:
        counts = _counted(pod)
        if excesses := _excesses(counts):
            return excesses
        total.update(counts)
    return _excesses(total, _ALL_TEMPLATES)


def exceeded_by_workload(obj: Mapping[str, Any]) -> list[Excess]:
    """The bounds that a workload exceeds by its metadata and its selector."""
    counts: dict[str, int] = {}
    _count(counts, _METADATA, obj.get("metadata"))
    if selector := _map(obj.get("spec")).get("selector"):
        counts["bytes of the selector"] = len(orjson.dumps(selector))
    return _excesses(counts)


def _counted(pod: Any) -> dict[str, int]:
    """The number of each entry of LIMITS in a pod. Entries that the pod does not have are missing."""
    counts: dict[str, int] = {}
    pod = _map(pod)
    spec = _map(pod.get("spec"))
    _count(counts, _METADATA, pod.get("metadata"))
    _count(counts, _CONTAINERS, spec)
    _count(counts, _SPEC, spec)
    _count(counts, _RESOURCES, spec.get("resources"))
    if affinity := spec.get("affinity"):  # the length of the text bounds the nested terms, expressions and values
        counts["bytes of affinity"] = len(orjson.dumps(affinity))
    if counts.get("containers", 0) <= LIMITS["containers"]:  # otherwise the pod is refused anyway
        for kind in CONTAINER_LISTS:
            containers = spec.get(kind)
            for container in containers if isinstance(containers, list) else ():
                _count(counts, _CONTAINER, container)
                if isinstance(container, dict):
                    _count(counts, _RESOURCES, container.get("resources"))
                    _count(counts, _CAPABILITIES, _map(container.get("securityContext")).get("capabilities"))
    return counts


def _count(counts: dict[str, int], fields: _Fields, parent: Any) -> None:
    if isinstance(parent, dict):
        for field, noun in fields.items():
            if (entries := parent.get(field)) and isinstance(entries, (list, dict)):
                counts[noun] = counts.get(noun, 0) + len(entries)


def _excesses(counts: Mapping[str, int], times: int = 1) -> list[Excess]:
    return [
        Excess("metadata" if noun in _METADATA else "spec", count, noun, LIMITS[noun] * times)
        for noun, count in counts.items()
        if count > LIMITS[noun] * times
    ]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def is_too_deep(obj: Any) -> bool:
    """Whether maps and lists are nested more deeply than in any Kubernetes type: a failure to decide is then not our bug."""
    level = [obj]
    for _ in range(_MAX_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [value for values in inner for value in values if isinstance(value, (dict, list))]
        if not level:
            return False
    return True
