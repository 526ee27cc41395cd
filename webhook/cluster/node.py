"""Reads of a node what placement needs of it as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.errors import QuantityError
from webhook.framework.cluster_view import Taint
from webhook.kube.quantity import milli, whole

SHARING_LABEL = "nvidia.com/gpu.replicas"
_MOST = 2**53  # amounts above this are not real; int64 cannot overflow by adding up what stays below


class Status(NamedTuple):
    """What keeps pods away from a node, or healthy. Most nodes of a cluster have one of a few."""

    taints: tuple[Taint, ...] = ()
    conditions: frozenset[tuple[str, str]] = frozenset()
    """Type and status of each."""
    cordoned: bool = False


def status_of(node: Mapping[str, Any]) -> Status:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    taints = [
        Taint(str(t.get("key", "")), str(t.get("value") or ""), str(t.get("effect", "")))
        for t in spec.get("taints") or ()
    ]
    conditions = [(str(c.get("type")), str(c.get("status"))) for c in status.get("conditions") or ()]
    return Status(tuple(sorted(taints)), frozenset(conditions), bool(spec.get("unschedulable")))


def allocatable_of(node: Mapping[str, Any]) -> dict[str, int]:
    """What a node can allocate: CPU in thousandths, all else in whole units. A quantity we cannot read counts as 0."""
    found = {}
    for name, quantity in ((node.get("status") or {}).get("allocatable") or {}).items():
        try:
            found[name] = min(_MOST, milli(quantity) if name == "cpu" else whole(quantity))
        except QuantityError:
            found[name] = 0
    return found


def pods_to_a_gpu(labels: Mapping[str, str]) -> int:
    """How many pods share one GPU, as GPU Feature Discovery labels it; 1 where it does not, or makes no sense."""
    said = labels.get(SHARING_LABEL, "")
    return int(said) if said.isascii() and said.isdigit() and 0 < len(said) < 5 and said != "0" else 1
