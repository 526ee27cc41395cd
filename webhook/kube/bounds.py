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

import orjson

from webhook.kube.pod import CONTAINER_LISTS

MAX_REVIEW_BYTES: Final = 2 << 20
"""Of a review whose object is looked at. etcd stores 1.5 MiB at most, and a pod of 100 kB is rare. The worst 2 MiB of JSON
(`{"":{"":…`) take 100 MiB."""
MAX_COLLECTIONS: Final = 500_000
"""Maps and lists in a body that is parsed at all. Each takes up to 230 bytes of memory for 5 of the body. What the API server has
decoded has names in each, so that 8 MiB of it have fewer."""
MAX_GROUPS: Final = 2_000
"""Of a user. Exemptions look at each of them."""
MAX_PATCH_BYTES: Final = 1 << 18
"""What we add to a pod takes a few kB, unless it repeats something huge of the pod, as a label of a megabyte."""
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
"""In all of a pod. `templates`: of one object, where a path of the policy has `*`; `selector`: of a workload."""
ALL_TEMPLATES: Final = 4
"""All templates of one object together may have this many times as much as one pod."""
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
    ("command", "arguments"),
    ("args", "arguments"),
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
    """What there is too much of: `field` as kubectl names it, `noun` as messages do."""

    field: str
    number: int
    noun: str
    limit: int


def of_size(size: int) -> list[Excess]:
    """Of a review with so many bytes."""
    return [Excess("object", size, "bytes in the review", MAX_REVIEW_BYTES)] if size > MAX_REVIEW_BYTES else []


def of_pod(pod: Any) -> list[Excess]:
    """Of one pod, whatever its shape; nothing for most."""
    return _excesses(_counted(pod))


def of_templates(pods: Iterable[Any]) -> list[Excess]:
    """Of the pods of all templates of one object."""
    total: Counter[str] = Counter()
    for pod in pods:
        counts = _counted(pod)
        if excesses := _excesses(counts):
            return excesses
        total.update(counts)
    return _excesses(total, ALL_TEMPLATES)


def of_workload(obj: Mapping[str, Any]) -> list[Excess]:
    """Of a workload beside its templates."""
    counts: dict[str, int] = {}
    _count(counts, _METADATA, obj.get("metadata"))
    if selector := _map(obj.get("spec")).get("selector"):
        counts["bytes of the selector"] = len(orjson.dumps(selector))
    return _excesses(counts)


def _counted(pod: Any) -> dict[str, int]:
    """How much there is of each of LIMITS, as far as it is in pods."""
    counts: dict[str, int] = {}
    pod = _map(pod)
    spec = _map(pod.get("spec"))
    _count(counts, _METADATA, pod.get("metadata"))
    _count(counts, _SPEC, spec)
    _count(counts, _RESOURCES, spec.get("resources"))
    if affinity := spec.get("affinity"):  # terms, expressions and values are nested: its length bounds them all
        counts["bytes of affinity"] = len(orjson.dumps(affinity))
    if counts.get("containers", 0) <= LIMITS["containers"]:  # with more there is nothing else to say
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
        for field, noun in fields:
            if (entries := parent.get(field)) and isinstance(entries, (list, dict)):
                counts[noun] = counts.get(noun, 0) + len(entries)


def _excesses(counts: Mapping[str, int], times: int = 1) -> list[Excess]:
    return [
        Excess("metadata" if (noun, noun) in _METADATA else "spec", count, noun, LIMITS[noun] * times)
        for noun, count in counts.items()
        if count > LIMITS[noun] * times
    ]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
