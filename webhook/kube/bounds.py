"""How much there may be in an object, counted before anything in it is walked.

A tenant writes the object, and what units do grows with what is in it. So it is counted once, from the lengths of its lists, in
both hooks, for pods, templates and old objects alike. Past a bound nothing else is looked at.

The largest of 600 published manifests for GPUs has 6 containers, 39 variables, 30 mounts, 15 volumes and 9 kB: each bound is
thirty times that at least. A pod at every bound together takes less than a second (`bench.hostile`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from webhook.kube.pod import CONTAINER_LISTS, PREFERRED

MAX_REVIEW_BYTES: Final = 2 << 20
"""Bytes of a review whose object is looked at. etcd stores 1.5 MiB at most, and a pod of 100 kB is rare. The worst 2 MiB of
JSON (`{"":{"":…`) take 100 MiB, and the gate of the mutating hook parses the pod once more."""
MAX_COLLECTIONS: Final = 500_000
"""Maps and lists in a body that is parsed at all. Each takes up to 230 bytes of memory for 5 of the body. What the API server has
decoded has names in each, so that 8 MiB of it have fewer."""
MAX_GROUPS: Final = 2_000
"""Of a user. Exemptions look at each of them."""
MAX_PATCH_BYTES: Final = 1 << 18
"""Bytes. What we add to a pod takes a few kB, unless it repeats what no object has: a label of a megabyte."""
LIMITS: Final[Mapping[str, int]] = {
    "containers": 256,
    "environment variables": 4096,
    "envFrom": 256,
    "ports": 4096,
    "volumeMounts": 2048,
    "volumeDevices": 1024,
    "names of resources": 2048,
    "capabilities": 1024,
    "volumes": 1024,
    "claims": 512,
    "tolerations": 256,
    "entries of the node selector": 256,
    "values in node affinity": 2048,
    "terms of pod affinity": 256,
    "topologySpreadConstraints": 256,
    "schedulingGates": 256,
    "labels": 1024,
    "annotations": 1024,
    "ownerReferences": 256,
    "entries of the selector": 1024,
    "templates": 64,
}
"""In all of a pod. `templates`: of one object, where a path of the policy has `*`; `selector`: of a workload."""
ALL_TEMPLATES: Final = 4
"""All templates of one object have this many times as much."""
_Fields = tuple[tuple[str, str], ...]
"""Names of lists and maps, and what is in them."""
_METADATA: Final[_Fields] = tuple([(name, name) for name in ("labels", "annotations", "ownerReferences")])
_SPEC: Final[_Fields] = (
    *[(kind, "containers") for kind in CONTAINER_LISTS],
    ("volumes", "volumes"),
    ("resourceClaims", "claims"),
    ("tolerations", "tolerations"),
    ("nodeSelector", "entries of the node selector"),
    ("topologySpreadConstraints", "topologySpreadConstraints"),
    ("schedulingGates", "schedulingGates"),
    ("overhead", "names of resources"),
)
_CONTAINER: Final[_Fields] = (
    ("env", "environment variables"),
    ("envFrom", "envFrom"),
    ("ports", "ports"),
    ("volumeMounts", "volumeMounts"),
    ("volumeDevices", "volumeDevices"),
)
_RESOURCES: Final[_Fields] = (
    ("limits", "names of resources"),
    ("requests", "names of resources"),
    ("claims", "claims"),
)
_CAPABILITIES: Final[_Fields] = (("add", "capabilities"), ("drop", "capabilities"))


class Excess(NamedTuple):
    """What there is too much of: `field` as kubectl names it."""

    field: str
    number: int
    what: str
    most: int


def of_size(size: int) -> list[Excess]:
    """Of a review with so many bytes."""
    return [Excess("object", size, "bytes in the review", MAX_REVIEW_BYTES)] if size > MAX_REVIEW_BYTES else []


def of_pod(pod: Any) -> list[Excess]:
    """Of one pod, whatever its shape; nothing for most."""
    return _past(counted(pod))


def of_templates(pods: Iterable[Any]) -> list[Excess]:
    """Of the pods of all templates of one object."""
    total: Counter[str] = Counter()
    for pod in pods:
        found = counted(pod)
        if past := _past(found):
            return past
        total.update(found)
    return _past(total, ALL_TEMPLATES)


def of_workload(obj: Mapping[str, Any]) -> list[Excess]:
    """Of a workload beside its templates."""
    found: dict[str, int] = {}
    _count(found, _METADATA, obj.get("metadata"))
    selector = _map(_map(obj.get("spec")).get("selector"))
    expressions = selector.get("matchExpressions")
    few = _values(expressions) if _few(expressions) else _size(expressions)
    found["entries of the selector"] = len(selector) + _size(selector.get("matchLabels")) + few
    return _past(found)


def counted(pod: Any) -> dict[str, int]:
    """How much there is of each of LIMITS, as far as it is in pods."""
    found: dict[str, int] = {}
    pod = _map(pod)
    spec = _map(pod.get("spec"))
    _count(found, _METADATA, pod.get("metadata"))
    _count(found, _SPEC, spec)
    _count(found, _RESOURCES, spec.get("resources"))
    if affinity := _map(spec.get("affinity")):
        found["values in node affinity"] = _node_terms(_map(affinity.get("nodeAffinity")))
        found["terms of pod affinity"] = _pod_terms(affinity)
    if found.get("containers", 0) <= LIMITS["containers"]:  # with more there is nothing else to say
        for kind in CONTAINER_LISTS:
            for container in _list(spec.get(kind)):
                _count(found, _CONTAINER, container)
                if isinstance(container, dict):
                    _count(found, _RESOURCES, container.get("resources"))
                    _count(found, _CAPABILITIES, _map(container.get("securityContext")).get("capabilities"))
    return found


def _count(found: dict[str, int], fields: _Fields, holder: Any) -> None:
    if isinstance(holder, dict):
        for field, what in fields:
            if (entries := holder.get(field)) and isinstance(entries, (list, dict)):
                found[what] = found.get(what, 0) + len(entries)


def _node_terms(affinity: Mapping[str, Any]) -> int:
    """Terms, expressions and values together. Of too many terms it is enough to know how many."""
    required = _map(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")).get("nodeSelectorTerms")
    preferred, count = affinity.get(PREFERRED), 0
    if not (_few(required) and _few(preferred)):
        return _size(required) + _size(preferred)
    terms = [*_list(required), *[_map(term).get("preference") for term in _list(preferred)]]
    for term in terms:
        count += 1
        for part in ("matchExpressions", "matchFields"):
            expressions = _map(term).get(part)
            count += _values(expressions) if _few(expressions) else _size(expressions)
            if count > LIMITS["values in node affinity"]:
                return count
    return count


def _pod_terms(affinity: Mapping[str, Any]) -> int:
    every = [_map(affinity.get(kind)) for kind in ("podAffinity", "podAntiAffinity")]
    return sum([_size(terms) for each in every for terms in each.values()])


def _values(expressions: Any) -> int:
    """Expressions and their values together."""
    return sum([1 + _size(_map(expression).get("values")) for expression in _list(expressions)])


def _few(entries: Any) -> bool:
    """Whether they may be walked: a list of bounded length, or none."""
    return not entries or (isinstance(entries, list) and len(entries) <= LIMITS["values in node affinity"])


def _past(found: Mapping[str, int], times: int = 1) -> list[Excess]:
    return [
        Excess("metadata" if (what, what) in _METADATA else "spec", count, what, LIMITS[what] * times)
        for what, count in found.items()
        if count > LIMITS[what] * times
    ]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (list, dict)) else 0
