"""Pods and clusters for tests, made by keywords: one known-good GPU pod, and one tweak of it.

pod()                                       one container "main" with one GPU, 8 CPUs and 32 GiB
pod(container(gpu=2))                       …with two GPUs
pod(nodeName="gpu-a1")                      …with any field of the spec, spelt as in Kubernetes
pod(init=[container("setup", gpu=None)])    …with an init container without a GPU
case(pod(), cluster=EMPTY, namespace="x")   a pod and what a unit knows besides it
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from webhook.framework.cluster_view import (
    Autoscaler,
    LimitRange,
    MetricsStatus,
    Obstacle,
    Placement,
    PriorityClass,
    RuntimeClass,
    Taint,
    Workload,
)
from webhook.framework.interface import Context, Finding, Rule
from webhook.framework.node_terms import has_name
from webhook.kube.claim_requests import Alternative, ClaimRequest
from webhook.kube.gpus import GpuName, Gpus
from webhook.kube.json_patch import Edit
from webhook.kube.pod import Pod, gpu_names, owner
from webhook.kube.review import Request

GPU = "nvidia.com/gpu"
GPUS = Gpus(
    (
        GpuName("nvidia.com/gpu", "whole"),
        GpuName("nvidia.com/gpu.shared", "share"),
        GpuName("nvidia.com/mig-*", "slice"),
        GpuName("amd.com/gpu", "whole"),
    )
)


def container(
    name: str = "main",
    *,
    gpu: Any = 1,
    limits: Mapping[str, Any] | None = None,
    requests: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """One container. `gpu` stands in limits and requests, as the API server leaves it; None is a container without.

    `limits` and `requests` come on top. `env` is name to value; a value that is a map is a valueFrom.
    """
    asked = {"cpu": "8", "memory": "32Gi"}
    gpus = {} if gpu is None else {GPU: str(gpu)}
    resources = {"limits": {**asked, **gpus, **(limits or {})}, "requests": {**asked, **gpus, **(requests or {})}}
    if limits is not None and requests is None:
        resources["requests"] |= limits
    entries = [{"name": k, "valueFrom" if isinstance(v, Mapping) else "value": v} for k, v in (env or {}).items()]
    made = {"name": name, "image": "registry.example/app:1", "resources": resources, **fields}
    return made | ({"env": entries} if entries else {})


def preferred_node(node: str, weight: int) -> dict[str, Any]:
    """The preferred term of node affinity that names a node."""
    return {"weight": weight, "preference": {"matchFields": [has_name(node)]}}


def pod(
    *containers: dict[str, Any],
    init: Iterable[dict[str, Any]] = (),
    ephemeral: Iterable[dict[str, Any]] = (),
    name: str = "trainer",
    namespace: str = "team-a",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owned_by: str | None = None,
    **spec: Any,
) -> Pod:
    """One pod; without containers it has one good GPU container. `owned_by` is the kind of its controller."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    if owned_by:
        reference = {"apiVersion": "apps/v1", "kind": owned_by, "name": name, "uid": "u-1", "controller": True}
        metadata["ownerReferences"] = [reference]
    lists = {"initContainers": list(init), "ephemeralContainers": list(ephemeral)}
    body = {"containers": list(containers) or [container()], **{k: v for k, v in lists.items() if v}, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def sidecar(name: str = "sidecar", **fields: Any) -> dict[str, Any]:
    """An init container that keeps running."""
    return container(name, restartPolicy="Always", **fields)


def admission_review(obj: Any, namespace: str = "team-a", **request: Any) -> dict[str, Any]:
    """A review of a new pod, as the API server sends it. `request` replaces fields of the request; None removes one."""
    asked = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "jane", "groups": ["dev", "ops"]},
        "object": obj,
    } | request
    kept = {field: value for field, value in asked.items() if value is not None}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": kept}


def request(obj: Any, old: Any = None, **fields: Any) -> Request:
    """The creation of a pod, or of what `fields` say otherwise. With `old` it is an update."""
    asked = Request(
        uid="u-1", kind="Pod", group="", resource="pods", subresource="", operation="UPDATE" if old else "CREATE",
        namespace="team-a", name="", user="jane", groups=("dev",), dry_run=False, object=copy.deepcopy(obj), old=old,
    )  # fmt: skip
    return asked._replace(**fields)


@dataclass
class ClusterFacts:
    """What units see of a cluster, as plain values."""

    fresh: bool = True
    gpu_metrics: MetricsStatus = field(default_factory=MetricsStatus)
    elastic: bool = False
    dra_drivers: tuple[str, ...] = ()
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    knows_priority_classes: bool = True
    offers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Node name to its allocatable extended resources."""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node name to its labels."""
    taints: tuple[Taint, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    budgets: Mapping[str, Mapping[str, str]] | None = None
    """Namespace to the labels that its PodDisruptionBudget selects by; None: not known."""

    autoscalers: Mapping[tuple[str, str, str], Autoscaler] = field(default_factory=dict)
    """Namespace, kind and name of a workload to what scales it."""

    runtime_classes: Mapping[str, str] = field(default_factory=dict)
    """RuntimeClass to its handler."""

    classes_of_runtime: Mapping[str, RuntimeClass] | None = None
    """The RuntimeClasses by name; None: not known."""

    ranges: Mapping[str, tuple[LimitRange, ...]] = field(default_factory=dict)
    """Namespace to its LimitRanges."""

    classes: Mapping[str, str] = field(default_factory=dict)
    """Resource that a DeviceClass stands for to the kind of its devices."""

    values: tuple[tuple[str, tuple[str, ...]], ...] = ()

    narrow: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Namespace and name of a PersistentVolumeClaim that not several nodes can use, to its access mode."""

    def runtime_handler(self, name: str) -> str | None:
        return self.runtime_classes.get(name)

    def runtime_class(self, name: str) -> RuntimeClass | None:
        return (self.classes_of_runtime or {}).get(name)

    @property
    def knows_runtime_classes(self) -> bool:
        return self.classes_of_runtime is not None

    def limit_ranges(self, namespace: str) -> tuple[LimitRange, ...]:
        return self.ranges.get(namespace, ())

    def namespace_labels(self, namespace: str) -> Mapping[str, str] | None:
        return self.namespaces.get(namespace)

    def budget_covers(self, namespace: str, labels: Mapping[str, str]) -> bool | None:
        if self.budgets is None:
            return None
        return namespace in self.budgets and self.budgets[namespace].items() <= labels.items()

    def autoscaler_of(self, namespace: str, kind: str, name: str) -> Autoscaler | None:
        return self.autoscalers.get((namespace, kind, name))

    def narrow_access(self, namespace: str, claim: str) -> str:
        return self.narrow.get((namespace, claim), "")

    def claimed(self, pod: Pod, namespace: str) -> tuple[ClaimRequest, ...]:
        return ()

    def asked_by(self, devices: Mapping[str, Any], path: str) -> tuple[ClaimRequest, ...]:
        return ()

    def device_values(self, expression: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return self.values

    def class_kind(self, resource: str) -> str:
        return self.classes.get(resource, "")

    def gpu_taints(self, gpus: Gpus) -> tuple[Taint, ...]:
        return self.taints

    def domains(self, topology_key: str, gpus: Gpus) -> int:
        return len(self.label_values(topology_key, gpus))

    def resources(self) -> Mapping[str, int]:
        names = sorted({name for offered in self.offers.values() for name in offered})
        return {name: max(offered.get(name, 0) for offered in self.offers.values()) for name in names}

    def least_per_gpu(self, resource: str, count: int) -> Mapping[str, int] | None:
        able = [offered for offered in self.offers.values() if offered.get(resource, 0) >= count > 0]
        if not able:
            return None
        return {name: min(each[name] // each[resource] for each in able) for name in ("cpu", "memory")}

    def label_values(self, key: str, gpus: Gpus) -> tuple[str, ...]:
        with_gpus = [node for node, offered in self.offers.items() if gpus.among(offered)]
        return tuple(sorted({self.labels.get(n, {})[key] for n in with_gpus if key in self.labels.get(n, {})}))


def classes(*names: str, default: str = "") -> dict[str, PriorityClass]:
    """Priority classes by name; the system ones are always there."""
    return {n: PriorityClass(n, 1000, "PreemptLowerPriority", n == default) for n in (*_SYSTEM, *names)}


_SYSTEM = ("system-cluster-critical", "system-node-critical")
EMPTY = ClusterFacts()
"""A cluster without any node."""
UNKNOWN = ClusterFacts(fresh=False, knows_priority_classes=False)
"""A cluster that was not yet listed."""
TWO_NODES = ClusterFacts(
    priority_classes=classes("gpu-inference", "gpu-training"),
    offers={"gpu-a1": {GPU: 8}, "gpu-a2": {GPU: 8}},
    labels={n: {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"} for n in ("gpu-a1", "gpu-a2")},
    taints=(Taint("nvidia.com/gpu", "present", "NoSchedule"),),
)
"""Two nodes of eight A100."""
POOLS = ClusterFacts(
    priority_classes=classes("gpu-inference", "gpu-training"),
    offers={
        "gpu-a1": {GPU: 8},
        "mig-1": {"nvidia.com/mig-1g.10gb": 14, "nvidia.com/mig-3g.40gb": 4},
        "shared-1": {"nvidia.com/gpu.shared": 16},
    },
    labels={
        "gpu-a1": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        "mig-1": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "shared-1": {"nvidia.com/gpu.product": "NVIDIA-L4-SHARED", "nvidia.com/gpu.sharing-strategy": "time-slicing"},
    },
    taints=(Taint("nvidia.com/gpu", "present", "NoSchedule"),),
)
"""Whole GPUs, MIG slices and time-sliced shares."""


class Obstructed:
    """Nodes that no pod fits, for these reasons; without any, nodes that every pod fits."""

    def __init__(self, *obstacles: Obstacle) -> None:
        self._obstacles = obstacles

    def obstacles(self, pod: Pod) -> tuple[Obstacle, ...]:
        return self._obstacles

    def place(self, pod: Pod) -> Placement:
        return Placement((), "pack", reason="no node fits")

    def choose(self, edit: Edit) -> Placement:
        return self.place(edit.object)


class Chosen(Obstructed):
    """Nodes that are ranked as this placement says, for every pod."""

    def __init__(self, placement: Placement) -> None:
        super().__init__()
        self._placement = placement

    def place(self, pod: Pod) -> Placement:
        return self._placement


def asking(
    devices: int | None = 1,
    kind: str = "whole",
    vendor: str = "nvidia.com",
    most: int | None = None,
    others: tuple[Alternative, ...] = (),
    **more: Any,
) -> ClaimRequest:
    """A request of a pod's first claim, by default for whole GPUs of NVIDIA. `others`: further alternatives."""
    alternatives = Alternative(devices, kind, vendor, most), *others
    return ClaimRequest("spec.resourceClaims[0]", 'template "train"', "gpu", "train", alternatives)._replace(**more)


class Case(NamedTuple):
    """One pod, what a unit knows besides it, and the rule where it is not the one with default settings."""

    pod: Pod
    context: Context
    rule: Rule | None = None

    def findings(self, rule: Rule) -> list[Finding]:
        return list((self.rule or rule).check(self.pod, self.context))

    def messages(self, rule: Rule) -> list[str]:
        return [finding.message for finding in self.findings(rule)]


def case(
    pod: Pod,
    *,
    rule: Rule | None = None,
    cluster: ClusterFacts = TWO_NODES,
    namespace: str = "team-a",
    workload: str = "training",
    placement: Placement | None = None,
    **context: Any,
) -> Case:
    """A pod in a context: two nodes of eight GPUs, namespace `team-a`, class `training`, unless told otherwise. `placement`: the
    nodes that are ranked for it."""
    if placement is not None:
        context["nodes"] = Chosen(placement)
    known = Context(namespace, GPUS, cluster, Workload(workload), owner(pod), gpu_names(pod, GPUS), **context)
    return Case(pod, known, rule)
