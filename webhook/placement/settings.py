"""How the node for a pod is chosen: the `placement` of a profile."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from webhook.framework.cluster_view import Expression, Preferred
from webhook.framework.interface import LabelKey, LabelValue, Settings
from webhook.placement.strategies import STRATEGIES
from webhook.text import listed, quoted

_INTEGER = re.compile(r"[0-9]{1,18}", re.ASCII)


def _known(name: str) -> str:
    if name not in (*STRATEGIES, "off"):
        raise ValueError(f"wanted {', '.join(map(repr, STRATEGIES))} or 'off'")
    return name


StrategyName = Annotated[str, AfterValidator(_known)]


class Health(Settings):
    """Nodes that are not chosen, although the scheduler would take them."""

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
    """Label: its bad values; "*" is any. These are the states of NVIDIA's driver upgrades in which pods are evicted."""
    conditions: dict[str, str] = Field(default={"GpuUnhealthy": "True", "GpuXidError": "True"})
    """Condition of the node: its bad status, True | False | Unknown."""


class Gangs(Settings):
    """Pods that work together go near the first of them. Where it is known how many there are (a Job says it, and the pods of a
    LeaderWorkerSet and of a PyTorchJob), the first goes where all of them have room."""

    enabled: bool = True
    kinds: tuple[str, ...] = (
        *("Job", "JobSet", "LeaderWorkerSet", "PyTorchJob", "TFJob", "MPIJob", "JAXJob", "TrainJob"),
        *("RayCluster", "RayJob"),
    )
    """Kinds of the object that made them."""
    keys: Annotated[tuple[str, ...], Field(max_length=8)] = (
        "nvidia.com/gpu.clique",
        "topology.kubernetes.io/rack",
        "topology.kubernetes.io/zone",
    )
    """Labels of nodes that say what is near, closest first."""


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
    """the classes of workload it is for; left out: all"""
    nodes: Annotated[tuple[NodeRequirement, ...], Field(max_length=8)]
    """what the node's labels are to be, all of it: key, operator (In | NotIn | Exists | DoesNotExist | Gt | Lt; In if left out),
    values (Gt and Lt: one whole number)"""
    weight: int = Field(default=50, ge=1, le=100)
    """1 to 100, against the others; what a node has of them adds up"""

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

    strategies: dict[str, StrategyName] = Field(
        default={"inference-critical": "apart", "inference": "apart", "service": "apart"},
        description="Class of workload: "
        + " | ".join(f"{name} ({strategy.meaning})" for name, strategy in STRATEGIES.items())
        + " | off (leave it to the scheduler)",
    )
    otherwise: StrategyName = "pack"
    """For every other class. `spread` costs large pods dearly: they find no node with enough free GPUs.

    `pack` breaks no whole node where a partly used one takes the pod, but where pods that were seen lately need just that rest:
    its GPUs would be left with less than half of the CPU that such pods ask for with each (with less than all of it, where the
    pod itself asks for a fifth more than they do), or only its model will do for them.
    A whole node has as many free GPUs as the largest ones have.

    With every strategy nodes come last that have a soft taint (PreferNoSchedule) that the pod does not tolerate, that are
    cordoned or under pressure, or about to be drained (taints of the cluster autoscaler, Karpenter and clouds).

    Room is left for pods that can go to few nodes, with every strategy, and a whole node broken for it: for pods that wait and
    are tied to at most four nodes by selector, affinity or volumes, and one GPU for whoever comes for a local disk that is
    claimed and that no pod uses. Of used nodes, pods with a volume of a zone, required pod affinity or anti-affinity, a hard
    spread or a port of the host take those with most room. A pod that another waits for (required pod affinity) goes where
    both fit, and none goes where a pod has required anti-affinity to it."""
    nodes: int = Field(default=10, ge=1, le=10)
    """How many nodes are ranked for a pod, 1 to 10."""
    every_pod: bool = False
    """true: pods without a GPU are ranked too, as `pack` does. Where they may run on nodes with GPUs (no taint keeps them
    away) the scheduler sends them to the emptiest ones, where they take the CPU and memory that large GPU pods need.

    It wants the component `every-pod` (manifests/components), without which such pods are never sent to us."""
    preferences: Annotated[tuple[Preference, ...], Field(max_length=32)] = ()
    """Nodes that pods rather go to, whatever the strategy: of two that fit, the one where these weigh more comes first. Pods get
    them as preferred node affinity too; they never wait for it, and a label key that a pod says something about by itself is
    left to it. A label that no GPU node has now does nothing.

    As [{classes: [training], weight: 40, nodes: [{key: karpenter.sh/capacity-type, values: [spot]}]},
        {classes: [inference], weight: 80, nodes: [{key: nvidia.com/gpu.product, values: [NVIDIA-L4]}]},
        {weight: 20, nodes: [{key: nvidia.com/gpu.memory, operator: Gt, values: ["75000"]}]}]

    More, for the labels of different clouds: docs/preferences.md. A pod names nodes and models for itself, by the annotations
    gpu-admission.io/preferred-nodes and gpu-admission.io/gpu-model: wishes as well, and they go first."""
    health: Health = Health()
    gangs: Gangs = Gangs()

    @cached_property
    def ranking(self) -> bytes:
        """All that a ranking depends on: profiles that differ elsewhere share what was worked out, so do old policies."""
        return self.model_dump_json(include={"nodes", "health", "gangs"}).encode()

    def strategy(self, workload: str) -> StrategyName:
        """The strategy for a class of workload."""
        return self.strategies.get(workload, self.otherwise)
