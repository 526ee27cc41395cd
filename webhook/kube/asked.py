"""A pod as it is asked for, read once: `AskedPod`. Injectors, rules, placement and the ledger read it.

It describes one version of the pod. A pod that was changed is read anew.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from webhook.kube.gpus import Gpus
from webhook.kube.leader_worker_set import GROUP, SET, SUBGROUP, group_labels
from webhook.kube.other_gpus import other_gpus, part_container
from webhook.kube.pod import (
    CONTAINER_LISTS,
    MAX_NAME,
    Container,
    Owner,
    Pod,
    annotations_of,
    asks_for_gpu,
    containers,
    controller_reference,
    is_made_for_a_node,
    is_zero,
    labels_of,
    namespace_of,
    owner,
    unmanaged_reason,
)
from webhook.kube.pod_requests import PodRequests, pod_requests_of
from webhook.kube.record import record_of

_APP_LABELS = ("app.kubernetes.io/instance", "app.kubernetes.io/name", "app", "k8s-app", "run")
JOBSET = "jobset.sigs.k8s.io/jobset-uid"
GROUP_LABELS = (GROUP, JOBSET, "elasticjob.dlrover/name")
"""Labels of pods that belong to one workload although smaller workloads, or nothing, control them."""
_PART_LABELS = ("ray.io/worker-group-replica-name", SUBGROUP)
"""Labels of pods that belong closer together than all of their workload: a replica of several hosts in a RayCluster, a subgroup
of a LeaderWorkerSet's group. Of a JobSet these are the pods of one Job."""


class PodKey(NamedTuple):
    """Identifies a pod, or replicas that are alike, before the pod has a name or a uid. It stays the same later."""

    namespace: str
    identity: str
    """The controller's uid; else generateName; else the name."""


class Identity(NamedTuple):
    """Which workload a pod is of, at admission as in the watch."""

    key: PodKey
    """Of its reservation."""
    owner: str
    """A key that the pods of one workload share: made of the labels of a group of workloads (JobSet, LeaderWorkerSet), else the
    controller's uid, else of an app label. "" if the pod has none of these."""
    part: str
    """A key that the pods of one part of a workload share (`_PART_LABELS`), and no others. "" if the workload has no parts."""

    @property
    def owners(self) -> tuple[str, ...]:
        """`owner` and `part`, as far as the pod has them."""
        return tuple([key for key in self[1:] if key])


class AskedPod:
    """One version of a pod. `json` is the object itself, which nothing changes through this; `gpus` says what is a GPU.

    A property whose value cannot be told raises what its function raises.
    """

    def __init__(self, json: Pod, gpus: Gpus) -> None:
        self.json = json
        self.gpus = gpus
        self.spec: dict[str, Any] = json["spec"]
        self.labels = labels_of(json)
        self.annotations = annotations_of(json)

    def changed(self, json: Pod) -> "AskedPod":
        """The pod as it is now. What is read of parts that are as they were is not read again."""
        if json is self.json:
            return self
        now, spec = AskedPod(json, self.gpus), json["spec"]
        if json["metadata"] is self.json["metadata"]:
            kept = [*_OF_METADATA]
            if all([spec.get(kind) is self.spec.get(kind) for kind in CONTAINER_LISTS]):
                kept += _OF_CONTAINERS
            now.__dict__ |= {name: self.__dict__[name] for name in kept if name in self.__dict__}
        return now

    @cached_property
    def namespace(self) -> str:
        return namespace_of(self.json)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """All containers, in the order in which they start."""
        return tuple(containers(self.json))

    @cached_property
    def whole_gpus(self) -> list[tuple[Container, int]]:
        """Containers and sidecars that have whole GPUs, each with the number of these."""
        kind, found = self.gpus.kind, list[tuple[Container, int]]()
        for container in self.containers:
            count = sum([n for name, n in container.gpu_counts(self.gpus).items() if kind(name) == "whole"])
            if count and (container.list_name == "containers" or container.sidecar):
                found.append((container, count))
        return found

    @cached_property
    def gpu_names(self) -> frozenset[str]:
        """The GPU resources that it names in any quantity but zero, malformed ones included."""
        return self._named[0]

    @cached_property
    def names_zero_gpus(self) -> bool:
        """Whether it names a GPU resource with a quantity of zero, and none with another."""
        return self._named == (frozenset(), True)

    @cached_property
    def _named(self) -> tuple[frozenset[str], bool]:
        """The `gpu_names`, and whether a container names a GPU resource with a quantity of zero."""
        names: set[str] = set()
        kind, zero = self.gpus.kind, False
        for container in self.containers:
            names.update(container.gpu_counts(self.gpus))
            resources = container.spec.get("resources") or {}
            for part in ("limits", "requests"):
                for name, quantity in (resources.get(part) or {}).items():
                    if kind(name) is not None and name not in names:  # zero, or malformed
                        if is_zero(quantity):
                            zero = True
                        else:
                            names.add(name)
        return frozenset(names), zero

    @cached_property
    def other_gpus(self) -> frozenset[str]:
        """The vendors of GPUs that it asks for without a GPU resource of the policy, DRA aside."""
        return other_gpus(self.json)

    @property
    def claims_devices(self) -> bool:
        """Whether it claims devices through DRA."""
        return bool(self.spec.get("resourceClaims"))

    @cached_property
    def asks_for_gpu(self) -> bool:
        """Whether it asks for at least one GPU, or for a part of one. Then it may have what only GPU pods may have."""
        return part_container(self.json) is not None or any(
            [c.has_gpu(self.gpus) or asks_for_gpu(c.spec, self.gpus) for c in self.containers]
        )

    @property
    def has_gpu(self) -> bool:
        """Whether it names a GPU in any quantity, or claims devices by DRA, which may be GPUs. For advice only: a rule that
        protects GPUs asks `asks_for_gpu`."""
        return bool(self.gpu_names or self.other_gpus or self.claims_devices) or self.asks_for_gpu

    @cached_property
    def owner(self) -> Owner | None:
        """Its controller."""
        return owner(self.json)

    @cached_property
    def identity(self) -> Identity:
        return identity_of(self.json)

    @cached_property
    def pod_requests(self) -> PodRequests:
        """The resources that the scheduler counts for it. Raises QuantityError."""
        return pod_requests_of(self.json)

    @cached_property
    def record(self) -> dict[str, Any]:
        """The decision record that an earlier call wrote; {} if there is none."""
        return record_of(self.json)

    @cached_property
    def unmanaged(self) -> str:
        """The `unmanaged_reason`."""
        return unmanaged_reason(self.json)

    @property
    def node_is_fixed(self) -> bool:
        """Whether no scheduler chooses the node: the pod names its node, or it is a static pod or a pod of a DaemonSet."""
        return bool(self.spec.get("nodeName")) or is_made_for_a_node(self.json)


_OF_METADATA: Final = ("namespace", "owner", "identity", "record")
_OF_CONTAINERS: Final = ("containers", "whole_gpus", "gpu_names", "names_zero_gpus", "_named", "other_gpus")
"""Properties of a pod that depend on its metadata alone, and on that and its containers."""


def identity_of(pod: Pod) -> Identity:
    metadata, labels, namespace = pod["metadata"], labels_of(pod), namespace_of(pod)
    controller = str((controller_reference(pod) or {}).get("uid") or "")[:MAX_NAME]
    name: str = metadata.get("generateName") or metadata.get("name") or ""
    if SET in labels:
        labels = {**labels, **group_labels(namespace, metadata.get("name") or "", labels, annotations_of(pod))}
    workload = f"{namespace}/{controller}" if controller else ""  # a tenant may name another's controller
    return Identity(
        PodKey(namespace, controller or name[:MAX_NAME]),
        _first(labels, GROUP_LABELS, namespace) or workload or _first(labels, _APP_LABELS, namespace),
        _first(labels, _PART_LABELS, namespace) or (workload if labels.get(JOBSET) else ""),
    )


def _first(labels: Mapping[str, str], keys: tuple[str, ...], namespace: str) -> str:
    """The first of these labels, with its value; "" if the pod has none of them."""
    for key in keys:
        if value := labels.get(key):
            return f"{namespace}/{key}={value[:MAX_NAME]}"
    return ""
