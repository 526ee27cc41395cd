"""What a unit of the webhook is called with, made by keywords: one known-good GPU pod, and one tweak of it.

pod()                                       one container "main" with one GPU: `tests.controlplane.objects`
pod("trainer", 2)                           …with two GPUs
pod(nodeName="gpu-a1")                      …with any field of the spec, spelt as in Kubernetes
pod(init=[container("setup", gpu=None)])    …with an init container without a GPU
case(pod(), cluster=EMPTY, namespace="x")   a pod and what a unit knows besides it
"""

import copy
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tests.controlplane.nodes import node
from tests.controlplane.objects import pod_spec
from tests.devices.dra import device_slice
from webhook.framework.cluster_view import (
    Autoscaler,
    LimitRange,
    Placement,
    PriorityClass,
    RuntimeClass,
    Unschedulable,
    Workload,
)
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.asked import AskedPod
from webhook.kube.claim_requests import Alternative, ClaimRequest
from webhook.kube.gpus import GpuName, Gpus
from webhook.kube.json_patch import Edit
from webhook.kube.other_gpus import DEVICE_CLASS
from webhook.kube.pod import Pod
from webhook.kube.review import Request
from webhook.kube.taints import Taint
from webhook.state.objects import ListKind
from webhook.state.state import ClusterState
from webhook.state.view import StateView

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
    name: str = "main", *, gpu: Any = 1, limits: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """One container of a pod: see `pod_spec`. `gpu` is its limit; None is a container without."""
    written = {"limits": ({} if gpu is None else {GPU: str(gpu)}) | dict(limits or {})}
    written |= {key: more.pop(key) for key in ("requests", "env") if key in more}
    (made,) = pod_spec(0, **written, container={"name": name, **more})["containers"]
    return dict(made)


def preferred_node(node: str, weight: int) -> dict[str, Any]:
    """The preferred term of node affinity that names a node, by its label."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


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
    """What a cluster has, as plain values. `view` is what units see of it: a real state that was filled with these objects."""

    fresh: bool = True
    elastic: bool = False
    """Whether its nodes have a providerID."""
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    knows_priority_classes: bool = True
    offers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Node name to its allocatable extended resources."""
    labels: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """Node name to its labels; None: without this one."""
    taints: tuple[Taint, ...] = ()
    """The taints of every node."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    autoscalers: Mapping[tuple[str, str, str], Autoscaler] = field(default_factory=dict)
    """Namespace, kind and name of a workload to what scales it."""
    runtime_classes: Mapping[str, str] = field(default_factory=dict)
    """RuntimeClass to its handler."""
    classes_of_runtime: Mapping[str, RuntimeClass] | None = None
    """The RuntimeClasses by name, whole."""
    ranges: Mapping[str, tuple[LimitRange, ...]] = field(default_factory=dict)
    """Namespace to its LimitRanges."""
    classes: Mapping[str, str] = field(default_factory=dict)
    """Resource that a DeviceClass stands for to the expression by which that selects devices."""
    devices: tuple[Mapping[str, Any], ...] = ()
    """What a driver of DRA tells of a node."""
    narrow: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Namespace and name of a PersistentVolumeClaim that not several nodes can use, to its access mode."""

    node_pools: tuple[str, ...] = ()
    """The NodePools of Karpenter."""
    quotas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Namespace to the PriorityClasses whose pods its ResourceQuota counts."""

    @cached_property
    def view(self) -> StateView:
        """Each kind of object is listed, as far as it is known."""
        of = ClusterState(max_age=60.0)
        kinds: dict[ListKind, list[dict[str, Any]]] = {
            "nodes": [self._node(name) for name in self.offers],
            "pods": [],
            "namespaces": [_named(name, labels=labels) for name, labels in self.namespaces.items()],
            "nodepools": [_named(name) for name in self.node_pools],
            "runtimeclasses": [_named(name, handler=handler) for name, handler in self.runtime_classes.items()],
            "deviceclasses": [*itertools.starmap(_device_class, self.classes.items())],
            "resourceslices": [device_slice("dra", self.devices)] if self.devices else [],
            "horizontalpodautoscalers": [*itertools.starmap(_autoscaler, self.autoscalers.items())],
            "persistentvolumeclaims": [
                _named(name, namespace=namespace, spec={"accessModes": [mode]})
                for (namespace, name), mode in self.narrow.items()
            ],
        }
        if self.knows_priority_classes:
            kinds["priorityclasses"] = [
                _named(
                    name, value=each.value, preemptionPolicy=each.preemption_policy, globalDefault=each.global_default
                )
                for name, each in self.priority_classes.items()
            ]
        kinds["resourcequotas"] = [
            _named("gpus", namespace=namespace, spec={"scopeSelector": {"matchExpressions": [_scope(names)]}})
            for namespace, names in self.quotas.items()
        ]
        kinds["limitranges"] = [_limit_range(name, each) for name, ranges in self.ranges.items() for each in ranges]
        for each in (self.classes_of_runtime or {}).values():
            scheduling = {"nodeSelector": dict(each.node_selector), "tolerations": [*each.tolerations]}
            overhead = {"podFixed": dict(each.overhead)}
            kinds["runtimeclasses"] += [
                _named(each.name, handler=each.handler, scheduling=scheduling, overhead=overhead)
            ]
        if not self.knows_priority_classes:  # none of these is listed
            del kinds["runtimeclasses"]
        for kind, objects in kinds.items():
            of.replace(kind, objects, 0.0)
        return of.view(0.0 if self.fresh else 1000.0)

    def _node(self, name: str) -> dict[str, Any]:
        resources = {resource: str(amount) for resource, amount in self.offers[name].items() if resource != GPU}
        return node(
            name,
            self.offers[name].get(GPU, 0),
            labels=self.labels.get(name),
            taints=[taint._asdict() for taint in self.taints],
            provider=f"cloud://{name}" if self.elastic else "",
            resources=resources,
        )


def _named(name: str, *, namespace: str = "", labels: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": dict(labels or {})} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, **fields}


def _device_class(resource: str, expression: str) -> dict[str, Any]:
    name = resource.removeprefix(DEVICE_CLASS)
    extended = {} if name != resource else {"extendedResourceName": resource}
    return _named(name, spec={"selectors": [{"cel": {"expression": expression}}], **extended})


def _limit_range(namespace: str, found: LimitRange) -> dict[str, Any]:
    defaults = {"type": "Container", "default": dict(found.limits), "defaultRequest": dict(found.requests)}
    bounds = [
        {"type": each.of, "min": dict(each.least), "max": dict(each.most), "maxLimitRequestRatio": dict(each.ratio)}
        for each in found.entries
    ]
    return _named(found.name, namespace=namespace, spec={"limits": [*bounds, defaults]})


def _scope(classes: tuple[str, ...]) -> dict[str, Any]:
    return {"scopeName": "PriorityClass", "operator": "In", "values": list(classes)}


def _autoscaler(of: tuple[str, str, str], found: Autoscaler) -> dict[str, Any]:
    namespace, kind, name = of
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    return _named(found.name, namespace=namespace, spec={"maxReplicas": found.max_replicas, "scaleTargetRef": target})


def classes(*names: str, default: str = "") -> dict[str, PriorityClass]:
    """Priority classes by name; the system ones are always there."""
    return {n: PriorityClass(n, 1000, "PreemptLowerPriority", n == default) for n in (*_SYSTEM, *names)}


_SYSTEM = ("system-cluster-critical", "system-node-critical")
EMPTY = ClusterFacts()
"""A cluster without any node."""
UNKNOWN = ClusterFacts(knows_priority_classes=False)
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
    """Nodes that no pod fits, for these reasons; without any, nodes that every pod fits, with these labels."""

    def __init__(self, *unschedulable: Unschedulable, labels: Iterable[Mapping[str, str]] = ()) -> None:
        self._unschedulable, self._labels = unschedulable, labels

    def unschedulable(self, pod: AskedPod) -> tuple[Unschedulable, ...]:
        return self._unschedulable

    def labels(self, pod: AskedPod, keys: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
        return frozenset([tuple([labels.get(key, "") for key in keys]) for labels in self._labels])

    def place(self, pod: AskedPod) -> Placement:
        return Placement((), "pack", reason="no node fits")

    def choose(self, pod: AskedPod, edit: Edit) -> Placement:
        return self.place(pod)


class Chosen(Obstructed):
    """Nodes that are ranked as this placement says, for every pod."""

    def __init__(self, placement: Placement) -> None:
        super().__init__()
        self._placement = placement

    def place(self, pod: AskedPod) -> Placement:
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
        return list((self.rule or rule).check(self.context.pod, self.context))

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
    known = Context(namespace, GPUS, cluster.view, Workload(workload), AskedPod(pod, GPUS), **context)
    return Case(pod, known, rule)
