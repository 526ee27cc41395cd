"""How the node for a pod is chosen: the `placement` of a profile."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from webhook.interface import Settings

StrategyName = Literal["spread", "pack", "off"]


class Health(Settings):
    """What makes a node's GPUs unfit, besides what taints say."""

    labels: dict[str, tuple[str, ...]] = Field(
        default={
            "nvidia.com/gpu-driver-upgrade-state": (
                "cordon-required",
                "node-maintenance-required",
                "post-maintenance-required",
                "wait-for-jobs-required",
                "pod-deletion-required",
                "drain-required",
                "pod-restart-required",
                "validation-required",
                "uncordon-required",
                "upgrade-failed",
            )
        }
    )
    """Node labels and their bad values; "*" stands for any value."""
    conditions: dict[str, str] = Field(default={"GpuUnhealthy": "True", "GpuXidError": "True"})
    """Node conditions and their bad status."""


class Gangs(Settings):
    """Pods of one gang prefer the topology domain that the first of them went to."""

    enabled: bool = True
    kinds: tuple[str, ...] = (
        *("Job", "JobSet", "LeaderWorkerSet", "PyTorchJob", "TFJob", "MPIJob", "JAXJob", "TrainJob"),
        *("RayCluster", "RayJob"),
    )
    """Kinds of the owner whose pods work together."""
    keys: Annotated[tuple[str, ...], Field(max_length=8)] = (
        "nvidia.com/gpu.clique",
        "topology.kubernetes.io/rack",
        "topology.kubernetes.io/zone",
    )
    """Node labels, closest first."""


class PlacementSettings(Settings):
    """The `placement` of a profile."""

    strategies: dict[str, StrategyName] = Field(default={"inference": "spread"})
    """By class of workload."""
    otherwise: StrategyName = "pack"
    """For every class that `strategies` does not name."""
    nodes: int = Field(default=10, ge=1, le=10)
    """How many nodes are ranked for a pod."""
    health: Health = Health()
    gangs: Gangs = Gangs()

    @cached_property
    def ranking(self) -> bytes:
        """All that a ranking depends on: profiles that differ elsewhere share what was worked out, so do old policies."""
        return self.model_dump_json(include={"nodes", "health", "gangs"}).encode()

    def strategy(self, workload: str) -> StrategyName:
        """The strategy for a class of workload."""
        return self.strategies.get(workload, self.otherwise)
