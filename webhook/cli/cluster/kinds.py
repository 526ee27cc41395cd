"""Which kinds of objects the commands read, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OUR_NAMESPACE: Final = "gpu-admission"
NEEDED: Final = ("Node", "Pod")
"""Without these no command can answer."""
ENGINE: Final = (
    *("Node", "Pod", "Namespace", "PriorityClass", "RuntimeClass", "ResourceSlice"),
    *("PodDisruptionBudget", "HorizontalPodAutoscaler", "ConfigMap"),
)
"""The kinds that the webhook reads to decide."""
NAMESPACE_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ConfigMap", "EndpointSlice", "NetworkPolicy"), OUR_NAMESPACE),
    "Lease": "kube-system",
}
"""Kinds that are read in one namespace only, ours or that of the schedulers: others may hold anything."""
