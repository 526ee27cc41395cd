"""The cluster at one moment: its objects by kind, and the state that the webhook would make of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from webhook.cli import offline
from webhook.cli.cluster.kinds import OUR_NAMESPACE
from webhook.cli.cluster.measured import Measured
from webhook.cli.terminal import no_such
from webhook.cluster.pods import SCHEDULER
from webhook.cluster.state import REQUIRED, ClusterState, ListKind
from webhook.errors import BadInput
from webhook.feeds.access import Access
from webhook.feeds.file import KINDS
from webhook.kube.pod import Pod
from webhook.policy.loader import KEY
from webhook.policy.model import Policy
from webhook.text import listed, plural, quoted

Object = dict[str, Any]
OUR_POLICY: Final = "gpu-admission-policy"
FINISHED: Final = frozenset(("Succeeded", "Failed"))


@dataclass
class Snapshot:
    """`missing`: why a kind is not known: it may be there all the same. `taken`: seconds since 1970; 0: not known."""

    objects: dict[str, list[Object]]
    missing: dict[str, str] = field(default_factory=dict)
    taken: float = 0.0
    namespace: str | None = None
    """That of the context; None: a file, which has none."""
    measured: Measured | None = None
    """What GPU metrics said then; None where they were not asked, or did not answer."""
    access: Access | None = field(default=None, repr=False)
    """How to reach the API server that it was read from; None: a file."""

    def of(self, kind: str) -> list[Object]:
        return self.objects.get(kind, [])

    def named(self, kind: str) -> Mapping[tuple[str, str], Object]:
        """By namespace ("" where the kind has none) and name."""
        index = self._indexes.get(kind)
        if index is None:
            index = self._indexes[kind] = {key_of(obj): obj for obj in self.of(kind)}
        return index

    @cached_property
    def _indexes(self) -> dict[str, dict[tuple[str, str], Object]]:
        return {}

    @cached_property
    def nodes(self) -> Mapping[str, Object]:
        return {obj["metadata"]["name"]: obj for obj in self.of("Node")}

    @cached_property
    def pods_on(self) -> Mapping[str, list[Pod]]:
        """The pods that hold something of a node, by its name."""
        by_node: dict[str, list[Pod]] = {}
        for pod in self.of("Pod"):
            if (node := pod["spec"].get("nodeName")) and pod["status"].get("phase") not in FINISHED:
                by_node.setdefault(node, []).append(pod)
        return by_node

    @cached_property
    def keeping_away(self) -> list[tuple[str, Pod]]:
        """Those of them with pod anti-affinity, and the node."""
        return [(node, pod) for node, pods in self.pods_on.items() for pod in pods if keeps_away(pod)]

    @cached_property
    def schedulers(self) -> frozenset[str]:
        """Those that are at work: they bound a pod, wrote an event about one, or hold a lease."""
        names = {SCHEDULER}
        for pod in self.of("Pod"):
            conditions = pod["status"].get("conditions") or ()
            if pod["spec"].get("nodeName") or any(
                [c.get("type") == "PodScheduled" and c.get("reason") for c in conditions]
            ):
                names.add(pod["spec"].get("schedulerName") or SCHEDULER)
        for event in self.of("Event"):
            if event.get("reason") in ("Scheduled", "FailedScheduling"):
                names.add(event.get("reportingComponent") or (event.get("source") or {}).get("component") or SCHEDULER)
        leases = [lease["metadata"]["name"] for lease in self.of("Lease")]
        return frozenset(names.union([name for name in leases if "scheduler" in name]))

    @cached_property
    def state(self) -> ClusterState:
        """As a replica of the webhook would have it that has just listed all. Reservations that have expired are not in it.

        Raises BadInput, which names the object that is wrong.
        """
        state = ClusterState(max_age=float("inf"))
        for name, kind in KINDS.items():
            if name in self.objects or (kind in REQUIRED and name not in self.missing):
                self._list(state, name, kind)
        return state

    def _list(self, state: ClusterState, name: str, kind: ListKind) -> None:
        objects = self.of(name)
        timed = kind == "pods" and bool(self.taken)
        for obj in sorted(objects, key=_birth) if timed else objects:
            try:
                # A reservation is as old as its pod; one that is bound has none.
                waits = timed and not obj["spec"].get("nodeName")
                state.seen(kind, obj, created(obj) if waits else self.taken)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                where = f"{name} {quoted(obj['metadata']['name'])}"
                raise BadInput(f"{where}: {type(error).__name__}: {error}. Give it as kubectl prints it") from None
        state.freshness.complete(kind, self.taken)

    def without(self, pods: Collection[Pod]) -> Snapshot:
        """As if these pods were deleted. It takes over the state: this snapshot is not to be used afterwards."""
        gone = {key_of(pod) for pod in pods}
        for pod in pods:
            self.state.pod_gone(pod)
        left = [pod for pod in self.of("Pod") if key_of(pod) not in gone]
        snapshot = Snapshot({**self.objects, "Pod": left}, self.missing, self.taken, self.namespace)
        snapshot.state = self.state
        return snapshot

    def pod(self, namespace: str | None, name: str) -> Pod:
        """By its name, as kubectl takes it (`pod/NAME` too). None: of whatever namespace, where only one has it. Raises BadInput
        with the nearest name where there is none."""
        pods, name = self.named("Pod"), name.removeprefix("pod/")
        if namespace is None:
            there = sorted([where for where, each in pods if each == name])
            if len(there) > 1:
                raise BadInput(
                    f"pod {quoted(name)} is in {plural(len(there), 'namespace')}: {listed(there)}. Give one: -n"
                )
            if not there:
                raise no_such("pod", name, [each for _, each in pods])
            (namespace,) = there
        if pod := pods.get((namespace, name)):
            return pod
        raise no_such("pod", name, [each for there, each in pods if there == namespace], f" in namespace {namespace}")

    @cached_property
    def policy(self) -> Policy | None:
        """That of the ConfigMap; None where there is none, or it is not known. Raises PolicyError."""
        config_map = self.named("ConfigMap").get((OUR_NAMESPACE, OUR_POLICY))
        text = ((config_map or {}).get("data") or {}).get(KEY)
        return offline.load_policy(text) if isinstance(text, str) else None


def keeps_away(pod: Pod) -> bool:
    return bool((pod["spec"].get("affinity") or {}).get("podAntiAffinity"))


def key_of(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _birth(obj: Object) -> str:
    """Sorts as time does: all of a cluster's timestamps have one form."""
    return str(obj["metadata"].get("creationTimestamp") or "")


def created(obj: Object) -> float:
    """When, in seconds since 1970; 0 where it does not say."""
    return seconds(obj["metadata"].get("creationTimestamp"))


def seconds(time: Any) -> float:
    """Of a timestamp of Kubernetes; 0 where it is none."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except (TypeError, ValueError):
        return 0.0
