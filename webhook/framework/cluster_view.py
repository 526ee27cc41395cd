"""The values that units read: the class of the pod, the state of the cluster, and the nodes ranked for the pod.

The packages `state` and `placement` fill these values; `interface.Context` carries them to the units.
"""

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from webhook.kube.claim_requests import ClaimRequest
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod
from webhook.kube.taints import Taint


class Workload(NamedTuple):
    """The class of workload of a pod. `warning` says why it is not the class that the pod asked for. `guessed`: no label of the
    pod asks for it and no entry for its namespace gives it; it follows from the kind of its controller, or from nothing."""

    name: str
    warning: str | None = None
    guessed: bool = False


class PriorityClass(NamedTuple):
    """The fields of a PriorityClass (scheduling.k8s.io/v1) that admission needs."""

    name: str
    value: int
    preemption_policy: str
    global_default: bool


class RuntimeClass(NamedTuple):
    """The fields of a RuntimeClass (node.k8s.io/v1) that admission needs."""

    name: str
    handler: str
    node_selector: Mapping[str, str] = MappingProxyType({})
    tolerations: tuple[Mapping[str, Any], ...] = ()
    overhead: Mapping[str, str] = MappingProxyType({})
    """What a pod uses besides its containers, by resource."""


class Limits(NamedTuple):
    """One entry of a LimitRange that is for containers or for pods: quantities by resource."""

    of: str
    """`Container` or `Pod`."""
    least: Mapping[str, str]
    most: Mapping[str, str]
    ratio: Mapping[str, str]
    """The largest limit for a request of 1."""


class LimitRange(NamedTuple):
    """The fields of a LimitRange (v1) that concern pods."""

    name: str
    limits: Mapping[str, str]
    """The default limits of a container, by resource."""
    requests: Mapping[str, str]
    """Its default requests."""
    entries: tuple[Limits, ...] = ()


class Autoscaler(NamedTuple):
    """The fields of a HorizontalPodAutoscaler (autoscaling/v2) that admission needs."""

    name: str
    max_replicas: int


class MetricsStatus(NamedTuple):
    """Whether GPU metrics are available for ranking nodes."""

    source: str = "off"
    reason: str = "GPU metrics are off"
    """A constant phrase that says why there are no metrics; "" where there are."""
    age: float | None = None
    """Seconds since the newest sample; None before the first one."""


class Cluster(Protocol):
    """The state of the cluster at one moment, as units see it."""

    @property
    def fresh(self) -> bool:
        """False while there is no state, or while it is too old to choose a node."""

    @property
    def gpu_metrics(self) -> MetricsStatus: ...

    @property
    def priority_classes(self) -> Mapping[str, PriorityClass]:
        """The PriorityClasses by name. Empty while they are not known: see `knows_priority_classes`."""

    @property
    def knows_priority_classes(self) -> bool: ...

    def runtime_handler(self, name: str) -> str | None:
        """The handler of a RuntimeClass. None if the RuntimeClass is not known."""

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """None if it is not known: see `knows_runtime_classes`."""

    @property
    def knows_runtime_classes(self) -> bool: ...

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """The LimitRanges of a namespace that are known, by name, up to a bound."""

    def namespace_labels(self, namespace: str) -> Mapping[str, str] | None:
        """The labels of a namespace. None if the namespace is not known."""

    def quota_covering(self, namespace: str, priority_class: str, *, but: str) -> str:
        """The name of a ResourceQuota of the namespace that counts pods of one PriorityClass and none of another (`but`); "" as a
        PriorityClass is none. "" if no such quota is known."""

    def autoscaler_of(self, namespace: str, kind: str, name: str) -> Autoscaler | None:
        """The HorizontalPodAutoscaler that scales a workload of the group `apps`. None if none is known."""

    def narrow_access(self, namespace: str, claim: str) -> str:
        """Why several nodes cannot use a PersistentVolumeClaim: the access mode `ReadWriteOnce` or `ReadWriteOncePod`. "" if they
        can, or if the claim is not known."""

    @property
    def elastic(self) -> bool:
        """Whether the cluster may get GPUs that no node offers now: some node has a `spec.providerID`, or GPUs by DRA."""

    @property
    def requires_preferences(self) -> bool:
        """Whether an autoscaler makes nodes that takes preferences of pods as requirements, before it gives them up one by one.
        That is Karpenter, where it has a NodePool or made a node (karpenter.sh/docs/concepts/scheduling, Preferences)."""

    @property
    def dra_drivers(self) -> tuple[str, ...]:
        """The GPU drivers that ResourceSlices name, as "gpu.nvidia.com". Sorted."""

    def gpu_taints(self, gpus: Gpus) -> tuple[Taint, ...]:
        """The taints of the nodes that have allocatable GPUs now, without duplicates, sorted."""

    def claimed(self, pod: Pod, namespace: str) -> tuple[ClaimRequest, ...]:
        """What the claims of a pod in a namespace ask for, as far as claims, templates and classes are known."""

    def asked_by(self, devices: Mapping[str, Any], path: str) -> tuple[ClaimRequest, ...]:
        """What `spec.devices` of a claim or a template asks for; `path` as in `claim_requests`. Raises as that does."""

    def class_kind(self, resource: str) -> str:
        """The kind, as in `claim_requests.Alternative`, of the devices of the DeviceClass that a resource stands for. "" if there
        is no such class, or its kind is not known."""

    def device_values(self, expression: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Of each attribute or capacity that an expression of a claim reads, the name, and the values that devices of nodes
        have, sorted."""

    def domains(self, topology_key: str, gpus: Gpus) -> int:
        """The number of different values that a label has on the nodes with GPUs."""

    def unlabelled(self, topology_key: str, gpus: Gpus) -> bool:
        """Whether a node with GPUs does not have this label, other than one that starts."""

    def resources(self) -> Mapping[str, int]:
        """Every extended resource that a node lists, with the largest allocatable amount of one node now. That is 0 where every
        node lists 0, for example while a device plugin restarts."""

    def most_gpus(self, resource: str) -> int:
        """The largest number of GPUs of one node that are not cut into slices; 0 if there are none, or none are known."""

    def least_per_gpu(self, resource: str, count: int) -> Mapping[str, int] | None:
        """The smallest allocatable `cpu` (thousandths) and `memory` (bytes) per GPU of any node that can allocate `count` of
        the GPU resource `resource` when it is empty. None if no node can."""

    @property
    def renamed_nodes(self) -> Set[str]:
        """Names of nodes whose label kubernetes.io/hostname is another name, or missing."""

    def label_values(self, key: str, gpus: Gpus) -> tuple[str, ...]:
        """The values of a label on the nodes with GPUs, sorted."""


class Ranked(NamedTuple):
    """One node that can take the pod, with the numbers by which it was ranked."""

    node: str
    free: int
    """Free GPUs of the requested resource, before this pod is placed."""
    peers: int
    """Pods of the same owner on the node, bound or reserved."""
    score: float
    usable: int | None = None
    """Free GPUs that are not busy, hot or unhealthy; None if the node has no metrics."""
    load: int | None = None
    """Mean utilisation of the node's GPUs in percent; None if it is not measured."""


Rejected = tuple[tuple[str, int], ...]
"""Why nodes do not fit: constant reasons, each with its number of nodes, in falling order of that number."""


class Unschedulable(NamedTuple):
    """One cause why no node could take a pod even if all nodes were up and empty."""

    cause: str
    """A constant word, or the name of a resource that no node has enough of. The words: `gpus` (too few), `shared` (offered only
    as shares), `resource` (on no node), `label`, `taint`, `together` (no single node has everything)."""
    about: str
    """The name of the resource, or the path of the pod's field."""
    seen: str
    wanted: str
    fix: str
    lasting: bool
    """True: no node of this cluster can take the pod, whatever becomes of labels and taints. False: that may change while the
    pod stays as it is. It follows from the nodes of this moment alone, so that all replicas say the same."""
    most: int = 0
    """How much of the resource one node has, of which the pod asks for more with its overhead and all its containers."""
    of_new_nodes: bool = False
    """The pod is for machines of which there is none now: an autoscaler may make them, and nothing is known of them."""


class Expression(NamedTuple):
    """One requirement of a NodeSelectorTerm. `field` is True for a requirement on metadata.name."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False


class Preferred(NamedTuple):
    """A PreferredSchedulingTerm: nodes that meet all expressions are preferred by `weight`, 1 to 100."""

    weight: int
    expressions: tuple[Expression, ...]


class Placement(NamedTuple):
    """The result of placement: the ranked nodes, best first; or none, and the `reason`."""

    nodes: tuple[Ranked, ...]
    strategy: str
    reason: str = ""
    """A constant phrase why no node is ranked: "cluster state is stale", "pod of a DaemonSet", "no node fits"."""
    weights: tuple[int, ...] = ()
    """The weights of the preferred terms for `nodes`: at least one per node, strictly falling, from 1 to 100."""
    total: int = 0
    """The number of nodes that were considered."""
    rejected: Rejected = ()
    preferred: tuple[Preferred, ...] = ()
    """Further preferred terms, from the policy and from annotations of the pod. They do not depend on the ranking."""
    warning: str | None = None
    """What the pod's author should know: a preference that no node meets, or that the GPUs of the first node are shared."""
    numbers: tuple[str | int, ...] = ()
    """The numbers behind the ranking: ("metrics", source, age in seconds), or ("allocation", the reason why no metrics)."""
    decided: str = ""
    """The criterion by which the first node is before the second: its name in `placement.order`; "" if there is no second."""
    asked: tuple[tuple[str, int], ...] = ()
    """The requests for which nodes were ranked, by resource; () if no node is ranked."""
    devices: tuple[Any, ...] = ()
    """The devices that it asks for one by one, for the reservation."""
    required: bool = False
    """Whether the pod's scheduler does not weigh preferences: the first node has to be required."""
    karpenter: str = ""
    """Where Karpenter makes nodes, the least version that makes one for the pod if the ranked ones are full; "none" if one is
    required. "" elsewhere."""
    read: str = ""
    """What of the pod the nodes were chosen by, but its requests, as a hash: `placement.request`. "" if no node is ranked."""
    kept: bool = False
    """The pod has its terms already, so nothing is reserved: an earlier call of the hook did so, or its author wrote them."""
    left: str = ""
    """The first node of an earlier call of the hook, if this one chose another one or none."""
