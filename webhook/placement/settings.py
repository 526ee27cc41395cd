"""How the node for a pod is chosen: the `placement` of a profile."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from webhook.framework.cluster_view import Expression, Preferred
from webhook.framework.interface import LabelKey, LabelValue, Settings
from webhook.text import listed, quoted

_INTEGER = re.compile(r"[0-9]{1,18}", re.ASCII)
StrategyName = Literal["apart", "spread", "pack", "off"]


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


class NodeRequirement(Settings):
    """What a label of a node is to be: a NodeSelectorRequirement of Kubernetes."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = "In"
    values: Annotated[tuple[LabelValue, ...], Field(max_length=64)] = ()

    @model_validator(mode="after")
    def _values_agree(self) -> NodeRequirement:
        wanted = {"Exists": "no values", "DoesNotExist": "no values"}.get(self.operator, "at least one value")
        good = bool(self.values) is (wanted != "no values")
        if self.operator in ("Gt", "Lt"):
            wanted = 'one whole number, as ["40000"]'
            good = len(self.values) == 1 and _INTEGER.fullmatch(self.values[0]) is not None
        if not good:
            seen = listed(map(quoted, self.values), 3) if self.values else "none"
            raise ValueError(f"{self.operator} wants {wanted}, saw {seen}")
        return self


class Preference(Settings):
    """Nodes that some pods rather go to: a pool, a capacity type, a model of GPU."""

    classes: Annotated[tuple[str, ...], Field(max_length=32)] = ()
    """The classes of workload that it is for; () is all."""
    nodes: Annotated[tuple[NodeRequirement, ...], Field(max_length=8)]
    """All of these hold for the node."""
    weight: int = Field(default=50, ge=1, le=100)
    """Against other preferences of the policy. What the pod's author wants comes before any of them."""

    @cached_property
    def keys(self) -> frozenset[str]:
        """The labels that it reads."""
        return frozenset([requirement.key for requirement in self.nodes])

    @cached_property
    def preferred(self) -> Preferred:
        """As a term of node affinity, with the policy's weight."""
        return Preferred(self.weight, tuple([Expression(r.key, r.operator, r.values) for r in self.nodes]))

    @field_validator("nodes")
    @classmethod
    def _something(cls, nodes: tuple[NodeRequirement, ...]) -> tuple[NodeRequirement, ...]:
        if not nodes:
            raise ValueError("wanted at least one label: without any, all nodes are alike")
        return nodes


class PlacementSettings(Settings):
    """The `placement` of a profile."""

    strategies: dict[str, StrategyName] = Field(default={"inference": "apart"})
    """By class of workload."""
    otherwise: StrategyName = "pack"
    """For every class that `strategies` does not name."""
    nodes: int = Field(default=10, ge=1, le=10)
    """How many nodes are ranked for a pod."""
    every_pod: bool = False
    """Pods without a GPU are ranked too, as `pack` does whatever their class. The scheduler would send them to the emptiest
    nodes, which are those that are kept free for large pods."""
    preferences: Annotated[tuple[Preference, ...], Field(max_length=32)] = ()
    """Of two nodes that fit, the one where these weigh more comes first, whatever the strategy."""
    health: Health = Health()
    gangs: Gangs = Gangs()

    @cached_property
    def ranking(self) -> bytes:
        """All that a ranking depends on: profiles that differ elsewhere share what was worked out, so do old policies."""
        return self.model_dump_json(include={"nodes", "health", "gangs"}).encode()

    def strategy(self, workload: str) -> StrategyName:
        """The strategy for a class of workload."""
        return self.strategies.get(workload, self.otherwise)
