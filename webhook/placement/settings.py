"""The `placement` of a profile: how nodes are chosen for pods."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from webhook.framework.cluster_view import Expression, Preferred
from webhook.framework.interface import LabelKey, LabelValue, Settings
from webhook.kube.workload_kinds import GANGS
from webhook.placement.strategies import STRATEGIES
from webhook.text import listed, quoted
from webhook.vendors import catalogue

_INTEGER = re.compile(r"[0-9]{1,18}", re.ASCII)


def _known(name: str) -> str:
    if name not in (*STRATEGIES, "off"):
        raise ValueError(f"wanted {', '.join(map(repr, STRATEGIES))} or 'off'")
    return name


StrategyName = Annotated[str, AfterValidator(_known)]


class Health(Settings):
    """Nodes that are not chosen, although the scheduler would use them."""

    labels: dict[str, tuple[str, ...]] = Field(default=catalogue.unhealthy())
    """By label, the values of an unhealthy node; "*" is any. These are the states of NVIDIA's driver upgrades in which
    pods are evicted."""
    conditions: dict[str, str] = Field(default=catalogue.conditions())
    """By condition of the node, the status of an unhealthy node: True | False | Unknown."""


class Gangs(Settings):
    """Pods that work together go near the first of them. If their number is known (from a Job, or from the pods of a
    LeaderWorkerSet or PyTorchJob), the first one goes where all of them have room."""

    enabled: bool = True
    kinds: tuple[str, ...] = GANGS
    """Kinds of their workloads, as in `classes`."""
    keys: Annotated[tuple[str, ...], Field(max_length=16)] = (
        *catalogue.labels("domain"),
        "topology.kubernetes.io/rack",
        "topology.kubernetes.io/zone",
    )
    """Node labels whose values are topology domains, closest first."""


class NodeRequirement(Settings):
    """A requirement for a label of a node: a NodeSelectorRequirement of Kubernetes."""

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
    """Nodes that some pods prefer: a pool, a capacity type, a GPU model."""

    classes: Annotated[tuple[str, ...], Field(max_length=32)] = ()
    """the classes of workload that prefer them; left out: all"""
    nodes: Annotated[tuple[NodeRequirement, ...], Field(max_length=8)]
    """what the labels of these nodes must be, all of it: key, operator (In | NotIn | Exists | DoesNotExist | Gt | Lt; In if
    left out), values (Gt and Lt: one whole number)"""
    weight: int = Field(default=50, ge=1, le=100)
    """1 to 100; the weights of all preferences that a node meets add up"""

    @cached_property
    def keys(self) -> frozenset[str]:
        """The labels that it requires."""
        return frozenset([requirement.key for requirement in self.nodes])

    @cached_property
    def preferred(self) -> Preferred:
        """The same as a preferred term of node affinity, with the policy's weight."""
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
    """The strategy of every other class. With `spread`, large pods find no node with enough free GPUs.

    `pack` fills partly used nodes first. It skips one where the pod would leave GPUs with too little CPU: less than half of
    what running pods request for each GPU, or less than all of it if the pod itself requests a fifth more than they do. It
    also skips one with a GPU model that is the only one which many running pods can use. A whole node has as many free GPUs
    as the largest nodes have.

    With every strategy these nodes rank last: with a soft taint (PreferNoSchedule) that the pod does not tolerate,
    cordoned, under pressure, or soon drained (taints of the cluster autoscaler, Karpenter and clouds).

    No node is chosen for a pod with pod affinity, for one with preferred anti-affinity to pods of other workloads, and
    for a second pod with a volume that its workload shares and that is not bound yet: the scheduler decides.
    """
    nodes: int = Field(default=10, ge=1, le=10)
    """How many nodes are ranked for a pod, 1 to 10."""
    every_pod: bool = False
    """true: nodes are ranked for pods without a GPU too, by `pack`. Where no taint keeps such pods from GPU nodes, the
    scheduler sends them to the emptiest ones, where they take the CPU and memory that large GPU pods need.

    It needs the component `every-pod` (manifests/components), without which such pods are never sent to this webhook.
    """
    preferences: Annotated[tuple[Preference, ...], Field(max_length=32)] = ()
    """Nodes that pods prefer, whatever the strategy: of two nodes that fit, the one with the higher sum of weights ranks
    first. Pods get them as preferred node affinity too, and never wait for them. If a pod's own selector or affinity names
    a label key, the preferences on that key do not apply to it. A label that no GPU node has now does nothing.

    For example:
      [{classes: [training], weight: 40, nodes: [{key: karpenter.sh/capacity-type, values: [spot]}]},
       {classes: [inference], weight: 80, nodes: [{key: nvidia.com/gpu.product, values: [NVIDIA-L4]}]},
       {weight: 20, nodes: [{key: nvidia.com/gpu.memory, operator: Gt, values: ["75000"]}]}]

    docs/howto.md has the labels of different clouds. A pod can name preferred nodes and models itself, by
    the annotations gpu-admission.io/preferred-nodes and gpu-admission.io/gpu-model. These rank before the policy's
    preferences.
    """
    required_for: Annotated[tuple[str, ...], Field(max_length=16)] = ()
    """Other schedulers whose pods get a node too, by name: [kai-scheduler, hami-scheduler]. They ignore preferences, so the
    first node is required, and the pod waits if it is full by then, also where Karpenter could make another. Pods that ask
    for parts of GPUs by HAMi count as pods of hami-scheduler. A pod that `nodeAffinity` would not pin in its mode `required`
    gets no node.
    """
    health: Health = Health()
    gangs: Gangs = Gangs()

    @cached_property
    def ranking(self) -> bytes:
        """All that a ranking depends on. Profiles that differ only in other settings, and old policies, share their caches."""
        return self.model_dump_json(include={"nodes", "health", "gangs"}).encode()

    def strategy(self, workload: str) -> StrategyName:
        return self.strategies.get(workload, self.otherwise)
