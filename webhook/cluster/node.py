"""Reads of a node what placement needs of it as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.errors import QuantityError
from webhook.kube.quantity import milli, whole

SHARING_LABEL = "nvidia.com/gpu.replicas"
_MOST = 2**53  # amounts above this are not real; int64 cannot overflow by adding up what stays below


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
