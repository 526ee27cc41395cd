"""Reservations: resources held for pods that were admitted and are not yet bound.

    admitted here            admitted elsewhere
         │ reserve                │
         ▼          seen          ▼
     ┌──────────┐ ─────────► ┌────────┐  bound   the pod is on a node and counts there
     │ reserved │            │  seen  │ ───────►
     └──────────┘ ─────────► └────────┘  gone    deleted or finished before it was bound
         │   seen bound at once   │ ───────►
         │ expire                 │ expire       its time is over, or the scheduler finds no node for it
         ▼                        ▼
      nothing                  nothing held; remembered until bound or gone

In both states the pod's requests are held on the first of its ranked nodes. Admission runs before a pod has a name or a uid. So
a reservation is matched by namespace, owner or generated name, first node and GPUs; not by CPU and memory, because a later
webhook may add a sidecar. A pod that is seen takes the oldest matching reservation, and from then on its own requests are held.
A pod that another replica of this webhook admitted is recognised by its decision annotation.

A stored pod is in the watch within moments. A pod that is not seen soon was refused by our own validating webhook, by a quota or
by another webhook, and its controller tries again. So a reservation expires earlier while its pod is not seen. No review ends a
reservation, because a review may be forged.

If another webhook changes a pod, our webhook is called a second time. If the pod was only made larger and its node has room for
the rest, it keeps its node and its reservation. If it gets another node, it gets a second reservation, and its record says which
node it left: the first reservation ends once the pod is seen.

`Parts` caps how many nodes a namespace can hold by reservations whose pods are not in the watch yet: a quota may refuse the
pod, and anybody who reaches the port can send a review of a pod that does not exist. Until the pod is seen, such a reservation
takes room from other namespaces on a few nodes only, the part of its namespace. Beyond these it is private: it counts for pods
of its own namespace alone. A burst thus sees all of its own reservations, however late the watch is.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from webhook.kube.asked import PodKey
from webhook.kube.stores import add_amount
from webhook.nodes.usage import PodKind, Usage

_PART: Final = 8
"""One in so many of the nodes that offer what the pod asks for is the part of a namespace; at least one node."""
_TRUSTED_PART: Final = 4
"""The same where only API servers can send reviews."""
_ALL: Final = 2
"""One in so many nodes are the parts of all namespaces together; at least one node."""
_MAX_PRIVATE: Final = 128
"""Maximum number of nodes with private reservations of one namespace: a review updates all of these."""
_MAX_OPEN: Final = 1024
"""Maximum number of open reservations of one namespace."""
_NONE: Final[Mapping[str, int]] = {}


class Parts:
    """Caps how many nodes a namespace can hold by reservations whose pods are not in the watch yet. `trusted`: whether only API
    servers can send reviews, so that each reservation is of a pod that somebody tried to create."""

    def __init__(self, *, trusted: bool = False) -> None:
        self.declined = 0
        """Number of reservations that were not made."""
        self._part = _TRUSTED_PART if trusted else _PART
        self._shared: dict[str, dict[str, int]] = {}
        """Reservations that count for all, by namespace and node."""
        self._private: dict[str, dict[str, int]] = {}
        """Those that are private to the namespace."""
        self._all = 0
        """Number of nodes in all values of `_shared`."""

    def allows(self, namespace: str, node: str, nodes: int) -> bool:
        """Whether one more reservation may be made. `nodes`: the number of those that offer what the pod asks for."""
        shared = self._shared.get(namespace, _NONE)
        private = self._private.get(namespace, _NONE)
        allowed = sum(shared.values()) + sum(private.values()) < _MAX_OPEN and (
            node in private or len(private) < _MAX_PRIVATE or self._is_shared(namespace, node, nodes)
        )
        self.declined += not allowed
        return allowed

    def opened(self, namespace: str, node: str, nodes: int) -> bool:
        """A reservation is made. Returns whether it is private."""
        private = not self._is_shared(namespace, node, nodes)
        self._all += not private and node not in self._shared.get(namespace, _NONE)
        add_amount(self._private if private else self._shared, namespace, node, 1)
        return private

    def closed(self, namespace: str, node: str, *, private: bool) -> None:
        """A reservation ended, or its pod is in the watch. `private`: what `opened` returned."""
        add_amount(self._private if private else self._shared, namespace, node, -1)
        self._all -= not private and node not in self._shared.get(namespace, _NONE)

    def _is_shared(self, namespace: str, node: str, nodes: int) -> bool:
        shared = self._shared.get(namespace, _NONE)
        return node in shared or (len(shared) < max(1, nodes // self._part) and self._all < max(1, nodes // _ALL))


@dataclass(slots=True, eq=False)
class Reservation:
    """What is held for one pod."""

    pod: PodKey
    node: str
    """The first of the ranked nodes."""
    row: int
    """The row of `node`; -1 if nothing is held any more."""
    kind: PodKind
    """What is held: what the pod requested when it was admitted, and once it is seen, what it requests."""
    until: float
    reserved: bool = False
    """Whether the pod was not yet seen."""
    private_to: str = ""
    """The namespace to which it is private; "" if it counts for all."""


class Counts(NamedTuple):
    reserved: int
    """Reservations made here whose pod was not yet seen."""
    seen: int
    """Reservations of pods that were seen and are not yet bound."""


class Ledger:
    """All reservations. Each arrow of the diagram is one method, which keeps the free resources in `usage` exact."""

    ttl, unseen_ttl = 30.0, 10.0
    """Seconds that a reservation lasts once its pod is seen, and until it is seen."""

    def __init__(self, usage: Usage, *, trusted: bool = False) -> None:
        self.honoured: dict[str, int] = {"first": 0, "ranked": 0, "other": 0}
        """Where pods with a reservation were bound: on the first of their ranked nodes, on another of these, or elsewhere."""
        self.ended: dict[str, int] = {"bound": 0, "gone": 0, "expired": 0, "unschedulable": 0, "left": 0}
        """How many reservations ended in each way."""
        self.parts = Parts(trusted=trusted)
        self._usage = usage
        self._reserved: dict[tuple[PodKey, str], list[Reservation]] = {}
        """By pod and first node, oldest first."""
        self._seen: dict[int | str, Reservation] = {}
        self._unseen: deque[Reservation] = deque()
        self._waiting: deque[Reservation] = deque()

    @property
    def counts(self) -> Counts:
        return Counts(
            sum([reservation.reserved for reservation in self._unseen]),
            sum([reservation.row >= 0 for reservation in self._seen.values()]),
        )

    @property
    def burst(self) -> bool:
        """Whether pods are being admitted now: a pod is not yet seen, or the last one that was seen is not yet bound."""
        return bool(self._reserved) or (bool(self._waiting) and self._waiting[-1].row >= 0)

    def reserve(self, pod: PodKey, node: str, kind: PodKind, offering: int, now: float) -> None:
        """A pod is admitted here with this node ranked first. `offering`: the number of nodes that offer what it asks for."""
        private = self.parts.opened(pod.namespace, node, offering)
        reservation = self._reserve(pod, node, kind, now + self.unseen_ttl, pod.namespace if private else "")
        reservation.reserved = True
        self._unseen.append(reservation)
        self._reserved.setdefault((pod, node), []).append(reservation)

    def seen(self, uid: int | str, pod: PodKey, node: str, kind: PodKind, now: float) -> None:
        """The pod exists, with this node ranked first, and is not bound, which was not known."""
        reservation = self._take(pod, node, kind)
        if reservation is None:
            reservation = self._reserve(pod, node, kind, now)
        else:
            self._becomes(reservation, kind)
        reservation.until = now + self.ttl
        self._waiting.append(reservation)
        self._seen[uid] = reservation

    def left(self, pod: PodKey, node: str, kind: PodKind) -> None:
        """The pod exists, and a later call than the one that reserved for it there chose another node, or none. "": no `node`."""
        if node and (reservation := self._take(pod, node, kind)) is not None:
            self.ended["left"] += 1
            self._give_back(reservation)

    def reserved(self, pod: PodKey, node: str) -> bool:
        """Whether something is reserved for such a pod on the node, and the pod was not yet seen."""
        return (pod, node) in self._reserved

    @contextmanager
    def without(self, pod: PodKey, node: str) -> Iterator[bool]:
        """Within it, the newest of what is `reserved` there counts as free. Yields whether something is."""
        newest = next(reversed(self._reserved.get((pod, node), ())), None)
        if newest is None or not self._usage.nodes.columns.alive[newest.row]:
            yield False
            return
        self._usage.give_back(newest.row, newest.kind, newest.private_to)
        try:
            yield True
        finally:
            newest.kind = self._usage.take(newest.row, newest.kind, newest.private_to)

    def waits(self, uid: int | str) -> bool:
        """Whether the pod was seen and is not yet bound."""
        return uid in self._seen

    def holds(self, uid: int | str) -> bool:
        """Whether something is held for a pod that was seen."""
        return uid in self._seen and self._seen[uid].row >= 0

    def becomes(self, uid: int | str, kind: PodKind) -> None:
        """A waiting pod was resized, or its claims have devices, which are left out: from now on hold `kind` for it."""
        if self.holds(uid):
            self._becomes(self._seen[uid], kind)

    def held(self, uid: int | str) -> PodKind | None:
        return self._seen[uid].kind if self.holds(uid) else None

    def unschedulable(self, uid: int | str) -> None:
        """The scheduler found no node for the pod. It waits, and nothing is held for it any more."""
        if self.holds(uid):
            self.ended["unschedulable"] += 1
            self._give_back(self._seen[uid])

    def bound(
        self, uid: int | str, pod: PodKey, first: str, kind: PodKind, node: str, ranked: Callable[[], Iterable[str]]
    ) -> bool:
        """The pod is bound. Returns whether what was held on its node now counts as the pod's; all else is released. `first`: its
        node that was ranked first, if it was not seen before. `ranked`: all of them."""
        reservation = self._seen.pop(uid, None) or self._take(pod, first, kind)
        if reservation is None:
            return False
        where = "first" if node == reservation.node else "ranked" if node in ranked() else "other"
        self.honoured[where] += 1
        self.ended["bound"] += 1
        if reservation.row >= 0 and reservation.row == self._usage.nodes.row_of.get(node):
            self._becomes(reservation, kind)
            reservation.row = -1
            return True
        self._give_back(reservation)
        return False

    def gone(self, uid: int | str) -> None:
        """The pod was deleted or finished before it was bound."""
        reservation = self._seen.pop(uid, None)
        if reservation is not None and reservation.row >= 0:
            self.ended["gone"] += 1
            self._give_back(reservation)

    def expire(self, now: float) -> None:
        """End the reservations whose time is over."""
        unseen = self._unseen
        while unseen and (not unseen[0].reserved or unseen[0].until <= now):
            reservation = unseen.popleft()
            if reservation.reserved:
                self._forget(reservation)
                self.ended["expired"] += 1
                self._give_back(reservation)
        while self._waiting and self._waiting[0].until <= now:
            reservation = self._waiting.popleft()
            if reservation.row >= 0:
                self.ended["expired"] += 1
                self._give_back(reservation)

    def holders(self, namespace: str = "") -> list[tuple[int, PodKind]]:
        """Every row and kind that is held now; of what is private, only that of `namespace`."""
        unseen = [each for each in self._unseen if each.reserved and each.private_to in ("", namespace)]
        return [
            (reservation.row, reservation.kind)
            for reservation in (*unseen, *self._seen.values())
            if reservation.row >= 0
        ]

    def waiting(self) -> list[int | str]:
        """The uids of pods that were seen and are not yet bound."""
        return list(self._seen)

    def _reserve(self, pod: PodKey, node: str, kind: PodKind, until: float, private_to: str = "") -> Reservation:
        row = self._usage.nodes.row(node)
        held = self._usage.take(row, kind, private_to)
        return Reservation(pod, node, row, held, until, private_to=private_to)

    def _becomes(self, reservation: Reservation, kind: PodKind) -> None:
        """Hold what the pod requests in place of what was reserved. It exists, so it counts for all."""
        if reservation.kind is not kind or reservation.private_to:
            before, reservation.kind = reservation.kind, self._usage.take(reservation.row, kind)
            self._usage.give_back(reservation.row, before, reservation.private_to)
            reservation.private_to = ""

    def _give_back(self, reservation: Reservation) -> None:
        if reservation.row >= 0:
            row, reservation.row = reservation.row, -1
            self._usage.give_back(row, reservation.kind, reservation.private_to)

    def _take(self, pod: PodKey, node: str, kind: PodKind) -> Reservation | None:
        """Take the oldest matching reservation out of the reserved ones, if it can be one for the same requests."""
        alike = [each for each in self._reserved.get((pod, node), ()) if each.kind.gpus == kind.gpus]
        taken = min(alike, key=lambda each: each.kind.pod_requests != kind.pod_requests, default=None)
        if taken is not None:
            self._forget(taken)
        return taken

    def _forget(self, reservation: Reservation) -> None:
        reservation.reserved = False
        self.parts.closed(reservation.pod.namespace, reservation.node, private=bool(reservation.private_to))
        key = reservation.pod, reservation.node
        self._reserved[key].remove(reservation)
        if not self._reserved[key]:
            del self._reserved[key]
