"""The placement of a pod, and fields of a pod that confine it."""

from typing import Any

from tests.builders import GPUS
from tests.state.objects import placer
from webhook.framework.cluster_view import Placement
from webhook.kube.asked import AskedPod
from webhook.placement.settings import PlacementSettings
from webhook.state.state import ClusterState

DEFAULTS = PlacementSettings()
KEY = "nvidia.com/gpu"
TAINT = {"key": KEY, "value": "present", "effect": "NoSchedule"}
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"


def placed(
    of: ClusterState, made: dict[str, Any], strategy: str = "pack", settings: PlacementSettings = DEFAULTS
) -> Placement:
    return placer(of).place(AskedPod(made, GPUS), of.view(0), settings, strategy)


def names(placement: Placement) -> list[str]:
    return [ranked.node for ranked in placement.nodes]


def affinity(*terms: dict[str, Any], preferred: list[tuple[int, dict[str, Any]]] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if terms:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": list(terms)}
    if preferred:
        listed = [{"weight": weight, "preference": term} for weight, term in preferred]
        found["preferredDuringSchedulingIgnoredDuringExecution"] = listed
    return {"nodeAffinity": found}


def expression(key: str, operator: str, *values: str, part: str = "matchExpressions") -> dict[str, Any]:
    return {part: [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}
