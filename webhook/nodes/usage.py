"""What pods use of nodes: the free resources, and how many pods of each owner, and of each part of it, are on each node.

A reservation whose pod the API server may have refused can be private to its namespace: it counts as used only while a pod of
that namespace is reviewed (`seen_from`).

`Nominations` are of pods that wait on a node for the end of the pods that they preempted: `status.nominatedNodeName`.

The room that is freed there is kept for them. So what they request counts as used on that node until they are bound, gone, or no
longer nominated. It does not count for the pod itself, nor for pods of a higher priority, which the scheduler lets take the room.

k8s.io/kubernetes pkg/scheduler/framework/runtime (addGENominatedPods).
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from webhook.devices.types import PUBLISHED
from webhook.kube.pod import Pod, pod_id, priority_of
from webhook.kube.pod_requests import PodRequests
from webhook.kube.stores import add_amount
from webhook.nodes.nodes import Nodes


class PodKind:
    """Requests and owner of pods. Equal pods share one object, so that a pod takes little memory."""

    __slots__ = ("count", "gpus", "namespace", "owners", "pod_requests", "roams")

    def __init__(self, pod_requests: PodRequests, owners: tuple[str, ...], namespace: str, roams: bool) -> None:
        self.pod_requests = pod_requests
        self.gpus = tuple([request for request in pod_requests.requests if "/" in request[0]])
        """The requests for extended resources."""
        self.owners = owners
        """The owner of the pods, and the part of it that they are of (`asked.Identity`); () if these do not matter."""
        self.namespace = namespace
        """Their namespace; "" for pods without extended resources, and for those that reserve GPUs for others."""
        self.roams = roams
        """They have no GPUs, and the scheduler alone chooses among all nodes for them: see `placement.cpu_pods`."""
        self.count = 0
        """Number of pods and reservations of this kind."""


def hold(holdings: dict[tuple[str, str], dict[int, int]], row: int, kind: PodKind, sign: int) -> None:
    """A pod of this kind is bound to the node of this row (1) or gone (-1). Those that only reserve GPUs for others have none."""
    for resource, amount in kind.gpus if kind.namespace else ():
        add_amount(holdings, (kind.namespace, resource), row, sign * amount)


class Usage:
    """Keeps `columns.free` and `peers` exact while pods come and go."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._changes = nodes.columns.changes
        self.peers: dict[str, dict[int, int]] = {}
        """Number of pods by owner, or part of one, and row; only numbers above zero."""
        self._kinds: dict[tuple[PodRequests, tuple[str, ...], str, bool], PodKind] = {}
        self._private: dict[str, dict[str, dict[int, int]]] = {}
        """By namespace, resource and row: the amount that is private to the namespace."""
        self.namespace = ""
        """The namespace whose private amounts count now: that of the last review. Others only read it."""

    def kind(
        self, pod_requests: PodRequests, owners: tuple[str, ...] = (), namespace: str = "", roams: bool = False
    ) -> PodKind:
        """The kind of pods of which this is so. It is shared while pods of it exist."""
        key = pod_requests, owners, namespace, roams
        return self._kinds.get(key) or PodKind(*key)

    def seen_from(self, namespace: str) -> bool:
        """From now on, count what is private to `namespace` as used, and what is private to others as free. "": nobody's
        counts as used. Returns whether this changes anything."""
        if namespace == self.namespace:
            return False
        changes = namespace in self._private or self.namespace in self._private
        self._count_private(self.namespace, 1)
        self._count_private(namespace, -1)
        self.nodes.devices.seen_from(namespace)
        self.namespace = namespace
        return changes

    def _count_private(self, namespace: str, sign: int) -> None:
        columns, private = self.nodes.columns, self._private.get(namespace, {})
        for resource, by_row in private.items():
            if resource in columns.named:
                for row, amount in by_row.items():
                    columns.add_free(resource, row, sign * amount)
            elif resource in columns.free and not resource.startswith(PUBLISHED):
                columns.free[resource][list(by_row)] += sign * np.array(list(by_row.values()))
        for row in private.get("pods", ()):
            self._changes.add(row)

    def take(self, row: int, kind: PodKind, private_to: str = "") -> PodKind:
        """Add a pod of this kind to a row (bound or reserved). Returns the kind as it is kept. `private_to`: the namespace
        to which it is private; "" if it is not."""
        if not kind.count:
            kind = self._kinds.setdefault((kind.pod_requests, kind.owners, kind.namespace, kind.roams), kind)
        kind.count += 1
        self.nodes.columns.pods[row] += 1
        self.count(row, kind, -1, private_to)
        for owner in kind.owners:
            add_amount(self.peers, owner, row, 1)
        return kind

    def give_back(self, row: int, kind: PodKind, private_to: str = "") -> None:
        self.count(row, kind, 1, private_to)
        for owner in kind.owners:
            add_amount(self.peers, owner, row, -1)
        kind.count -= 1
        if not kind.count:
            del self._kinds[kind.pod_requests, kind.owners, kind.namespace, kind.roams]
        self.nodes.columns.pods[row] -= 1
        self.nodes.drop_if_unused(row)

    def recount(self, resource: str, holders: Iterable[tuple[int, PodKind]]) -> None:
        """A resource is on some node for the first time: subtract what `holders`, which are not private, use of it."""
        columns = self.nodes.columns
        for row, kind in holders:
            if amount := kind.pod_requests.amount(resource):
                columns.add_free(resource, row, -amount)
                self._changes.add(row)
        for row, amount in self._private.get(self.namespace, {}).get(resource, {}).items():
            columns.add_free(resource, row, -amount)

    def count(self, row: int, kind: PodKind, sign: int, private_to: str = "") -> None:
        """What a pod of this kind requests is used on a row (-1), or free again (1)."""
        columns = self.nodes.columns
        if kind.roams:
            columns.roaming[row] -= sign * kind.pod_requests.amount("cpu")
        if kind.pod_requests.devices:
            self.nodes.devices.hold(row, kind.pod_requests.devices, -sign, private_to)
        if private_to:
            self._add_private(private_to, row, kind, -sign)
            if private_to != self.namespace:
                return
        for resource, amount in kind.pod_requests.requests:
            if resource in columns.free and not resource.startswith(PUBLISHED):
                columns.add_free(resource, row, sign * amount)
        self._changes.add(row)

    def _add_private(self, namespace: str, row: int, kind: PodKind, sign: int) -> None:
        private = self._private.setdefault(namespace, {})
        for resource, amount in kind.pod_requests.requests:
            add_amount(private, resource, row, sign * amount)
        if not private:
            del self._private[namespace]


_BINDING: Final = 1 << 32


def is_unschedulable(pod: Pod) -> bool:
    """Whether the scheduler has said that it found no node for the pod."""
    return any(c.get("reason") == "Unschedulable" for c in (pod.get("status") or {}).get("conditions") or ())


def nominated_priority(pod: Pod) -> int:
    """Only pods with a higher priority than this may take the room that a nominated pod needs on its node.

    It is the priority of the pod, if the pod waits there. Otherwise the pod is being bound (KEP-5278): the scheduler nominates
    its node while claims and volumes are written, and then keeps the room from every other pod.
    """
    return priority_of(pod) if is_unschedulable(pod) else _BINDING


class Nominations:
    """All nominated pods, by uid."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._held: dict[int | str, tuple[int, PodKind, int]] = {}
        """Row, kind and priority of each."""

    def put(self, uid: int | str, node: str, kind: PodKind, priority: int) -> None:
        """A pod of this kind is nominated to a node; "": to none."""
        row = self._usage.nodes.row(node) if node else -1
        if self._held.get(uid) == (row, kind, priority):
            return
        self.gone(uid)
        if node:
            row = self._usage.nodes.row(node)  # it may have been held for this pod alone
            self._held[uid] = row, self._usage.take(row, kind), priority

    def gone(self, uid: int | str) -> None:
        """The pod is bound, deleted or finished."""
        if (held := self._held.pop(uid, None)) is not None:
            self._usage.give_back(*held[:2])

    def of(self, uid: int | str) -> tuple[int, PodKind, int] | None:
        """The row, the kind and the priority of a pod; None if it is not nominated."""
        return self._held.get(uid)

    def holders(self) -> list[tuple[int, PodKind]]:
        """The row and the kind of each."""
        return [(row, kind) for row, kind, _ in self._held.values()]

    def kept_from(self, pod: Pod, *, kept: bool = True) -> list[tuple[int, PodKind]]:
        """The row and the kind of each that counts for a pod, or of each that does not."""
        if not self._held:
            return []
        own, priority = pod_id(pod["metadata"]), priority_of(pod)
        every = self._held.items()
        return [(row, kind) for uid, (row, kind, of) in every if (uid != own and of >= priority) is kept]

    def set_aside(self, pod: Pod) -> list[tuple[int, PodKind]]:
        """What does not count for this pod is free until `count_again`."""
        others = self.kept_from(pod, kept=False)
        for row, kind in others:
            self._usage.count(row, kind, 1)
        return others

    def count_again(self, others: list[tuple[int, PodKind]]) -> None:
        for row, kind in others:
            self._usage.count(row, kind, -1)

    def uids(self) -> list[int | str]:
        return [*self._held]
