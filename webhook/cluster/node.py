"""Reads the amounts, taints and conditions of a Node object."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from webhook.errors import QuantityError
from webhook.kube.quantity import milli, whole
from webhook.kube.taints import Taint, node_taints
from webhook.text import number_of

SHARED = "nvidia.com/gpu"
"""Shared GPUs have this resource name too, unless the device plugin renames it (NVIDIA/k8s-device-plugin, README)."""
_REPLICAS, COUNT = "nvidia.com/gpu.replicas", "nvidia.com/gpu.count"
"""COUNT: the label with the number of physical GPUs."""
_STRATEGY, _PRODUCT = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.product"
_STRATEGIES = frozenset(("time-slicing", "mps"))
_MAX_AMOUNT = 2**53  # larger amounts are not real; sums of amounts up to this fit into int64
UNKNOWN_AMOUNT = _MAX_AMOUNT
"""The installed amount of a resource of which a node says 0."""


class Status(NamedTuple):
    """Taints, conditions and cordon of a node. Most nodes of a cluster share a few of these values."""

    taints: tuple[Taint, ...] = ()
    conditions: frozenset[tuple[str, str]] = frozenset()
    """Type and status of each condition."""
    cordoned: bool = False


def status_of(node: Mapping[str, Any]) -> Status:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    conditions = [(str(c.get("type")), str(c.get("status"))) for c in status.get("conditions") or ()]
    return Status(tuple(sorted(node_taints(node))), frozenset(conditions), bool(spec.get("unschedulable")))


def amounts_of(node: Mapping[str, Any], part: Literal["allocatable", "capacity"] = "allocatable") -> dict[str, int]:
    """The amounts of each resource: CPU in thousandths, all else in whole units. An unreadable quantity counts as 0."""
    amounts = {}
    for name, quantity in ((node.get("status") or {}).get(part) or {}).items():
        try:
            amounts[name] = min(_MAX_AMOUNT, milli(quantity) if name == "cpu" else whole(quantity))
        except QuantityError:
            amounts[name] = 0
    return amounts


def installed_on(node: Mapping[str, Any]) -> dict[str, int]:
    """How much of each extended resource the node may offer as it is: the larger of allocatable and capacity, since sick
    devices count in capacity only. Where both are 0 it is UNKNOWN_AMOUNT: the kubelet writes 0 while a device plugin is away. But
    not where the node offers something else of the same vendor: a plugin that renames shared GPUs, or slices them, leaves a 0.
    """
    allocatable, capacity = amounts_of(node, "allocatable"), amounts_of(node, "capacity")
    most = {
        name: max(allocatable.get(name, 0), capacity.get(name, 0)) for name in (*allocatable, *capacity) if "/" in name
    }
    offered = {name.partition("/")[0] for name, amount in most.items() if amount}
    return {
        name: amount or (0 if name.partition("/")[0] in offered else UNKNOWN_AMOUNT) for name, amount in most.items()
    }


def pods_per_gpu(labels: Mapping[str, str], offered: int = 0) -> float:
    """How many pods share one GPU by time-slicing or MPS, by the labels of GPU Feature Discovery; 1 if GPUs are not shared.

    `offered`: the allocatable amount of SHARED. Some labels say that GPUs are shared, but not by how many pods. Then it
    is `offered` divided by the labelled number of GPUs, and 2 at least.
    """
    replicas = number_of(labels.get(_REPLICAS)) or 0
    if replicas > 1:
        return float(replicas)
    if labels.get(_STRATEGY) in _STRATEGIES or labels.get(_PRODUCT, "").endswith("-SHARED"):
        return max(2.0, offered / (number_of(labels.get(COUNT)) or 1))
    return 1.0
