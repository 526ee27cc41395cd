"""A cluster at one moment: its objects by kind, and the cluster state that the webhook would build from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from webhook.errors import BadInput
from webhook.feeds.access import Access
from webhook.kube.kinds import KINDS
from webhook.kube.pod import FINISHED, SCHEDULER, Pod
from webhook.policy.loader import KEY
from webhook.policy.model import Policy
from webhook.state.objects import REQUIRED, STATE_KINDS, ListKind
from webhook.state.state import ClusterState
from webhook.text import quoted
from webhook.whatif import offline
from webhook.whatif.cluster.measured import Measured
from webhook.whatif.cluster.release import OUR_POLICY, Release

NEEDED: Final = ("Node", "Pod")
"""Without these no command can answer."""
ENGINE: Final = (
    *("Node", "Pod", "Namespace", "PriorityClass", "RuntimeClass", "LimitRange", "ResourceSlice", "DeviceTaintRule"),
    *("PodDisruptionBudget", "ResourceQuota", "HorizontalPodAutoscaler", "NodePool", "ConfigMap"),
)
"""Kinds that the webhook reads to decide. A file without one of them is of a cluster that has none."""
CLAIMS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
"""Kinds that it reads besides. Without them it is not known what is free of the devices of DRA."""
_OURS: Final = ("ConfigMap", "EndpointSlice", "NetworkPolicy")
"""Kinds that are read in the namespace of the webhook only: others may hold anything."""


BUT: Final = "other namespaces than "
"""Before the namespace, in the reason why a kind could be read in one only."""
Object = dict[str, Any]


@dataclass
class Snapshot:
    """The objects of a cluster, by kind."""

    objects: dict[str, list[Object]]
    missing: dict[str, str] = field(default_factory=dict)
    """By kind: why its objects could not be read, all or some of them. The cluster may have them."""
    taken: float = 0.0
    """When it was read, in seconds since 1970; 0 if that is not known."""
    namespace: str | None = None
    """The namespace of the kubeconfig context; None for a file."""
    measured: Measured | None = None
    """The GPU metrics of that moment; None if they were not asked for, or did not answer."""
    access: Access | None = field(default=None, repr=False)
    """How to reach the API server that it was read from; None for a file."""
    read_from: str = ""
    """Where it was read, in words: "on the cluster of context prod"."""
    release: Release = field(default_factory=Release)
    """How the webhook is installed there."""
    _indexes: dict[str, dict[tuple[str, str], Object]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def only_in(self, kind: str) -> str | None:
        """The one namespace in which a kind is read: ours, or that of the schedulers; None for all namespaces."""
        return self.release.namespace if kind in _OURS else "kube-system" if kind == "Lease" else None

    def lacks(self, kind: str, namespace: str) -> bool:
        """Whether the objects of a kind in this namespace could not be read."""
        return kind in self.missing and not self.missing[kind].endswith(f"{BUT}{namespace}")

    def of(self, kind: str) -> list[Object]:
        return self.objects.get(kind, [])

    def put(self, obj: Object) -> None:
        """Add an object, in place of one that is called the same."""
        kind = str(obj["kind"])
        self.objects[kind] = [*[each for each in self.of(kind) if key_of(each) != key_of(obj)], obj]
        self._indexes.pop(kind, None)

    def named(self, kind: str) -> Mapping[tuple[str, str], Object]:
        """The objects of a kind by namespace ("" if the kind has none) and name."""
        index = self._indexes.get(kind)
        if index is None:
            index = self._indexes[kind] = {key_of(obj): obj for obj in self.of(kind)}
        return index

    @cached_property
    def nodes(self) -> Mapping[str, Object]:
        return {obj["metadata"]["name"]: obj for obj in self.of("Node")}

    @cached_property
    def pods_on(self) -> Mapping[str, list[Pod]]:
        """The bound pods that have not finished, by the name of their node."""
        by_node: dict[str, list[Pod]] = {}
        for pod in self.of("Pod"):
            if (node := pod["spec"].get("nodeName")) and pod["status"].get("phase") not in FINISHED:
                by_node.setdefault(node, []).append(pod)
        return by_node

    @cached_property
    def schedulers(self) -> frozenset[str]:
        """The names of the schedulers at work: they bound a pod, wrote an event about one, or hold a lease."""
        names = {SCHEDULER}
        for pod in self.of("Pod"):
            if pod["spec"].get("nodeName") or condition(pod, "PodScheduled").get("reason"):
                names.add(pod["spec"].get("schedulerName") or SCHEDULER)
        for event in self.of("Event"):
            if event.get("reason") in ("Scheduled", "FailedScheduling"):
                names.add(event.get("reportingComponent") or (event.get("source") or {}).get("component") or SCHEDULER)
        leases = [lease["metadata"]["name"] for lease in self.of("Lease")]
        return frozenset(names.union([name for name in leases if "scheduler" in name]))

    @cached_property
    def state(self) -> ClusterState:
        """The state of a replica of the webhook that has just listed these objects, without expired reservations.

        Raises BadInput, which names the malformed object.
        """
        state = offline.new_state()
        for name, kind in STATE_KINDS.items():
            if name in self.objects or (kind in REQUIRED and name not in self.missing):
                self._fill(state, name, kind)
        return state

    def _fill(self, state: ClusterState, name: str, kind: ListKind) -> None:
        objects = self.of(name)
        timed = kind == "pods" and bool(self.taken)
        for obj in sorted(objects, key=creation_timestamp) if timed else objects:
            try:
                # The reservation of an unbound pod is as old as the pod; a bound pod has none.
                unbound = timed and not obj["spec"].get("nodeName")
                state.seen(kind, obj, created(obj) if unbound else self.taken)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                where = f"{name} {quoted(obj['metadata']['name'])}"
                raise BadInput(f"{where}: {type(error).__name__}: {error}. Give it as kubectl prints it") from None
        state.freshness.complete(kind, self.taken)

    @cached_property
    def policy(self) -> Policy | None:
        """The policy in the ConfigMap; None if there is none, or it could not be read. Raises PolicyError."""
        text = self.policy_text
        return None if text is None else offline.load_policy(text)

    @property
    def policy_text(self) -> str | None:
        config_map = self.named("ConfigMap").get((self.release.namespace, OUR_POLICY))
        text = ((config_map or {}).get("data") or {}).get(KEY)
        return text if isinstance(text, str) else None


def complete(name: str, obj: Object) -> Object:
    """An object of a list or a watch with what these leave out: its kind, and a spec and status, which not all kinds have."""
    version = KINDS[name].group.removeprefix("/api/").removeprefix("/apis/")
    return {"apiVersion": version, "kind": name, "spec": {}, "status": {}, **obj}


def key_of(obj: Object) -> tuple[str, str]:
    """Namespace ("" if the kind has none) and name."""
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def condition(obj: Object, kind: str) -> Object:
    """The condition of this type in the object's status; {} if there is none."""
    return next((each for each in obj["status"].get("conditions") or () if each.get("type") == kind), {})


def creation_timestamp(obj: Object) -> str:
    """The time of creation as text. It sorts as time does: all timestamps of a cluster have the same form."""
    return str(obj["metadata"].get("creationTimestamp") or "")


def created(obj: Object) -> float:
    """The time of creation in seconds since 1970; 0 if the object does not say."""
    return seconds(obj["metadata"].get("creationTimestamp"))


def seconds(time: Any) -> float:
    """A Kubernetes timestamp in seconds since 1970; 0 if it is none."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError):
        return 0.0
