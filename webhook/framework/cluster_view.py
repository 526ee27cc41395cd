"""What units may read: the workload of the pod, the cluster at this moment, and the nodes ranked for the pod.

Plain values. `cluster` and `placement` fill them, `interface.Context` carries them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from webhook.kube.gpus import Gpus
from webhook.text import Hint


class Workload(NamedTuple):
    """The class of a pod. `warning` tells the caller why it is not the class that was asked for."""

    name: str
    warning: str | None = None


class PriorityClass(NamedTuple):
    """scheduling.k8s.io/v1 PriorityClass, as far as admission needs it."""

    name: str
    value: int
    preemption_policy: str
    global_default: bool


class Autoscaler(NamedTuple):
    """autoscaling/v2 HorizontalPodAutoscaler, as far as admission needs it."""

    name: str
    max_replicas: int


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class MetricsStatus(NamedTuple):
    """Whether there are GPU metrics that nodes may be ranked by."""

    source: str = "off"
    reason: str = "GPU metrics are off"
    """A constant phrase why there are none; "" where there are."""
    age: float | None = None
    """Seconds since the newest sample; None where there never was one."""


class Cluster(Protocol):
    """The cluster at one moment, as units see it. Answers are cached where they are asked for on every request."""

    @property
    def fresh(self) -> bool:
        """False while there is no state, or it is too old to choose a node by."""

    @property
    def gpu_metrics(self) -> MetricsStatus: ...

    @property
    def priority_classes(self) -> Mapping[str, PriorityClass]:
        """By name. Empty while not yet known: see `knows_priority_classes`."""

    @property
    def knows_priority_classes(self) -> bool: ...

    def runtime_handler(self, name: str) -> str | None:
        """The runtime that a RuntimeClass stands for. None where the class is not known."""

    def namespace_labels(self, namespace: str) -> Mapping[str, str] | None:
        """None where the namespace is not known."""

    def budget_covers(self, namespace: str, labels: Mapping[str, str]) -> bool | None:
        """Whether a PodDisruptionBudget takes a pod with these labels. None where that is not known."""

    def autoscaler_of(self, namespace: str, kind: str, name: str) -> Autoscaler | None:
        """The HorizontalPodAutoscaler that scales a workload of the group apps. None where none is known."""

    @property
    def elastic(self) -> bool:
        """Whether GPUs may come that no node offers now: nodes come from an autoscaled pool, or DRA serves GPUs."""

    @property
    def dra_drivers(self) -> tuple[str, ...]:
        """The drivers of GPUs that ResourceSlices name: "gpu.nvidia.com". Sorted."""

    def gpu_taints(self, gpus: Gpus) -> tuple[Taint, ...]:
        """The taints that nodes with allocatable GPUs carry now, without duplicates, sorted."""

    def has_open_node(self, resources: Iterable[str], selector: Mapping[str, str]) -> bool:
        """Whether a node with one of these resources and with these labels takes pods without tolerations, or will once it is
        ready and not cordoned."""

    def domains(self, topology_key: str, gpus: Gpus) -> int:
        """How many different values of a node label the nodes with GPUs have."""

    def resources(self) -> Mapping[str, int]:
        """Each extended resource that some node names, or named before, with the most that one node can allocate now:
        0 where all have lost it, as while a device plugin restarts."""

    def least_per_gpu(self, resource: str, count: int) -> Mapping[str, int] | None:
        """`cpu` (thousandths) and `memory` (bytes) for each GPU, where a node has least: of those that can allocate `count` of
        `resource`, a name of GPUs, when empty. None where no node can."""

    def label_values(self, key: str, gpus: Gpus) -> tuple[str, ...]:
        """The values of a label over the nodes with GPUs, sorted."""


class Ranked(NamedTuple):
    """One node that may take the pod, with the numbers it was ranked by."""

    node: str
    free: int
    """GPUs of the asked resource that are free before this pod."""
    peers: int
    """Pods of the same owner on the node, bound or reserved."""
    score: float
    usable: int | None = None
    """Of the free GPUs, those that are not busy, hot or sick; None where there are no metrics of the node."""
    load: int | None = None
    """Mean utilisation of its GPUs in percent; None where it is not measured."""


Rejected = tuple[tuple[str, int], ...]
"""Why nodes do not fit: a constant reason and the number of nodes, most first."""


class Obstacle(NamedTuple):
    """Why no node could take a pod even if all nodes were up and empty: one cause."""

    cause: str
    """`gpus`, `shared` (only as shares), `resource` (on no node), `label`, `taint`, `together` (on no one node), or the resource
    that is short."""
    about: str
    """The resource, or the field of the pod."""
    seen: str
    wanted: str
    fix: str | Hint
    lasting: bool
    """No node of this cluster ever could. Otherwise it may become possible without a change of the pod: a label, a taint, a node
    that comes back."""


class Expression(NamedTuple):
    """One requirement of a node, as in a NodeSelectorTerm. `field` is True where it is about the node's name."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False


class Preferred(NamedTuple):
    """One preferred term: nodes that meet all its expressions, and how much they are preferred, 1 to 100."""

    weight: int
    expressions: tuple[Expression, ...]


class Placement(NamedTuple):
    """What placement found: `nodes` strictly ordered, best first; empty with a `reason` where none was chosen."""

    nodes: tuple[Ranked, ...]
    strategy: str
    reason: str = ""
    """A constant phrase why there is no choice: "cluster state is stale", "pod of a DaemonSet", "no node fits"."""
    weights: tuple[int, ...] = ()
    """Weights of the preferred terms, one per node at least, strictly falling (1..100)."""
    total: int = 0
    """Nodes looked at."""
    rejected: tuple[tuple[str, int], ...] = ()
    """Why nodes do not fit, a constant reason and how many, most first: the histogram of a refusal."""
    preferred: tuple[Preferred, ...] = ()
    """What else is preferred in a node, by the policy and by annotations of the pod, whether or not one was chosen."""
    warning: str | None = None
    """What the pod's author prefers and no node offers."""
    numbers: tuple[str | int, ...] = ()
    """What nodes with GPUs were ranked by: "metrics", their source, and their age in seconds; or "allocation", and why alone."""
    asked: tuple[tuple[str, int], ...] = ()
    """What the pod asks for in all, by resource, as nodes were ranked for it; () where none was chosen."""
