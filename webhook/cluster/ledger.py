"""Reservations: GPUs held for pods that were admitted and are not yet bound.

    admitted here            admitted elsewhere
         │ reserve                │
         ▼          seen          ▼
     ┌──────────┐ ─────────► ┌────────┐  bound   the pod is on a node and counts there
     │ reserved │            │  seen  │ ───────►
     └──────────┘ ─────────► └────────┘  gone    deleted or finished before it was bound
         │   seen bound at once   │ ───────►
         │ expire                 │ expire       its time is over, or the scheduler said that it fits nowhere
         ▼                        ▼
      nothing                  nothing held; remembered until bound or gone

In both states the pod's demand is held on the first of its ranked nodes. Admission runs before a pod has a name or a uid,
so a reservation is matched by namespace, owner or generated name, first node and GPUs. CPU and memory do not count: a
later webhook may add a sidecar. A pod that is seen takes the oldest reservation that matches, and from then on its own
demand is held. A pod that another replica admitted is recognised by its decision annotation.

A stored pod is in the watch within moments. A pod that is not seen soon was refused by our own validating hook, by quota or
by another webhook, and its controller tries again. So a reservation whose pod is not seen ends earlier than one whose pod
waits to be bound. No review ends a reservation: it may be forged. Anybody who reaches the port can ask for reservations:
`ReservationLimit` bounds how many an owner has open.

A pod that another hook made larger is ranked anew, in a second call. Both reservations stay until the pod is seen: it takes the
one that is for what it asks, and the others for the same pod end with it. Where they are on the same node, they hold what
the larger one asks for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from webhook.cluster.node_table import Demand
from webhook.cluster.pods import PodKey
from webhook.cluster.reservation_limit import ReservationLimit
from webhook.cluster.usage import PodKind, Usage

Bound = Literal["unreserved", "reserved", "counted"]
"""Of a pod that is bound: it had no reservation; it had one elsewhere; it had one on its node, which counts as the pod now."""


class Reservation:
    """What is held for one pod. `row` is -1 once it holds nothing."""

    __slots__ = ("asked", "calls", "kind", "node", "nodes", "pod", "reserved", "row", "until")

    def __init__(self, pod: PodKey, node: str, row: int, kind: PodKind, until: float) -> None:
        self.pod = pod
        self.node = node
        """The first of the ranked nodes."""
        self.asked = kind
        """What the pod asked for when it was admitted."""
        self.reserved = False
        """The pod was not yet seen."""
        self.calls: list[Reservation] = []
        """While it is not: all reservations for this pod, one for each call of the hook. They share the list."""
        self.nodes: tuple[str, ...] = ()
        """The ranked nodes, once the pod is seen: its annotation names them."""
        self.row = row
        self.kind = kind
        """What is held."""
        self.until = until


class Counts(NamedTuple):
    reserved: int
    """Reserved here, pod not yet seen."""
    seen: int
    """Pod exists, not yet bound, holds its first node."""


class Ledger:
    """One method per arrow. Every arrow moves what is held in `usage`, so free resources are always exact."""

    def __init__(self, usage: Usage, ttl: float, unseen_ttl: float) -> None:
        self.ttl = ttl
        """Seconds that a pod which is seen may wait to be bound."""
        self.unseen_ttl = unseen_ttl
        """Seconds within which a pod must be seen."""
        self.honoured: dict[str, int] = {"first": 0, "ranked": 0, "other": 0}
        """Where pods with a reservation were bound: on the first of their ranked nodes, on another of them, elsewhere."""
        self.ended: dict[str, int] = {"bound": 0, "gone": 0, "expired": 0, "unschedulable": 0, "superseded": 0}
        """How reservations ended."""
        self.limit = ReservationLimit()
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
    def on_their_way(self) -> bool:
        """Whether pods are admitted at this moment: the last one that was seen here is not yet bound, or one was not seen yet."""
        return bool(self._reserved) or (bool(self._waiting) and self._waiting[-1].row >= 0)

    def reserve(self, pod: PodKey, node: str, kind: PodKind, now: float, earlier: Reservation | None = None) -> None:
        """Admitted here, with this node ranked first. `earlier`: of an earlier call of the hook for the same pod."""
        calls = earlier.calls if earlier is not None else []
        held = [call.kind.demand for call in calls if call.node == node]
        more = self._usage.kind(kind.demand.beyond(held), "") if held else kind
        reservation = self._reserve(pod, node, more, now + self.unseen_ttl)
        reservation.asked, reservation.calls, reservation.reserved = kind, calls, True
        calls.append(reservation)
        self._unseen.append(reservation)
        self._reserved.setdefault((pod, node), []).append(reservation)
        self.limit.opened(pod)

    def earlier(self, pod: PodKey, node: str, asked: Demand) -> Reservation | None:
        """What was reserved here for a pod that asked for this then and is ranked anew. Of replicas, which nobody can tell apart,
        one that was not so far."""
        alike = [call for call in self._reserved.get((pod, node), ()) if call.asked.demand == asked]
        return min(alike, key=lambda call: len(call.calls), default=None)

    @contextmanager
    def without(self, earlier: Reservation) -> Iterator[None]:
        """Meanwhile nothing is held for this pod: its earlier reservations do not count against it."""
        for call in earlier.calls:
            self._usage.give_back(call.row, call.kind)
        try:
            yield
        finally:
            for call in earlier.calls:
                call.row = self._usage.nodes.row(call.node)
                call.kind = self._usage.take(call.row, call.kind)

    def seen(self, uid: int | str, pod: PodKey, nodes: tuple[str, ...], kind: PodKind, now: float) -> None:
        """The pod exists and is not bound. Nothing where that was known."""
        if uid in self._seen:
            return
        reservation = self._take(pod, nodes[0], kind)
        if reservation is None:
            reservation = self._reserve(pod, nodes[0], kind, now)
        else:
            self._becomes(reservation, kind)
        reservation.nodes, reservation.until = nodes, now + self.ttl
        self._waiting.append(reservation)
        self._seen[uid] = reservation

    def waits(self, uid: int | str) -> bool:
        """Whether the pod was seen, and not yet bound."""
        return uid in self._seen

    def holds(self, uid: int | str) -> bool:
        """Whether something is held for a pod that was seen."""
        return uid in self._seen and self._seen[uid].row >= 0

    def unschedulable(self, uid: int | str) -> None:
        """The scheduler found no node for the pod: it waits, and holds nothing meanwhile."""
        if self.holds(uid):
            self.ended["unschedulable"] += 1
            self._give_back(self._seen[uid])

    def bound(self, uid: int | str, pod: PodKey, nodes: tuple[str, ...], kind: PodKind, node: str) -> Bound:
        """The pod is on a node: what was held there counts as the pod's now, what was held elsewhere is given back."""
        reservation = self._seen.pop(uid, None)
        if reservation is not None:
            nodes = reservation.nodes
        else:
            reservation = self._take(pod, nodes[0], kind) if nodes else None
            if reservation is None:
                return "unreserved"
        where = "first" if node == nodes[0] else "ranked" if node in nodes else "other"
        self.honoured[where] += 1
        self.ended["bound"] += 1
        if reservation.row >= 0 and reservation.row == self._usage.nodes.row_of.get(node):
            self._becomes(reservation, kind)
            reservation.row = -1
            return "counted"
        self._give_back(reservation)
        return "reserved"

    def gone(self, uid: int | str) -> None:
        """The pod was deleted, or finished, before it was bound."""
        reservation = self._seen.pop(uid, None)
        if reservation is not None and reservation.row >= 0:
            self.ended["gone"] += 1
            self._give_back(reservation)

    def expire(self, now: float) -> None:
        """End the reservations whose pod was not seen, or not bound, in time."""
        unseen = self._unseen
        while unseen and (not unseen[0].reserved or unseen[0].until <= now):  # a seen pod has its own time
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

    def holders(self) -> list[tuple[int, PodKind]]:
        """Every row and kind that is held now."""
        reservations = (*[reservation for reservation in self._unseen if reservation.reserved], *self._seen.values())
        return [(reservation.row, reservation.kind) for reservation in reservations if reservation.row >= 0]

    def waiting(self) -> list[int | str]:
        """The pods that were seen and are not yet bound."""
        return list(self._seen)

    def _reserve(self, pod: PodKey, node: str, kind: PodKind, until: float) -> Reservation:
        row = self._usage.nodes.row(node)
        return Reservation(pod, node, row, self._usage.take(row, kind), until)

    def _becomes(self, reservation: Reservation, kind: PodKind) -> None:
        """The pod asks for something else than was reserved."""
        if reservation.kind is not kind:
            before, reservation.kind = reservation.kind, self._usage.take(reservation.row, kind)
            self._usage.give_back(reservation.row, before)

    def _give_back(self, reservation: Reservation) -> None:
        if reservation.row >= 0:
            row, reservation.row = reservation.row, -1
            self._usage.give_back(row, reservation.kind)

    def _take(self, pod: PodKey, node: str, kind: PodKind) -> Reservation | None:
        """The oldest reservation for such a pod on this node, taken out of the reserved ones; preferably one for all that it
        asks, and of a first call. The others for the same pod end."""
        alike = [call for call in self._reserved.get((pod, node), ()) if call.asked.gpus == kind.gpus]
        taken = min(alike, key=lambda call: (call.asked.demand != kind.demand, call.calls[0] is not call), default=None)
        if taken is not None:
            for call in [*taken.calls]:
                self._forget(call)
                if call is not taken:
                    self.ended["superseded"] += 1
                    self._give_back(call)
        return taken

    def _forget(self, reservation: Reservation) -> None:
        reservation.reserved = False
        reservation.calls.remove(reservation)
        reservation.calls = []
        key = reservation.pod, reservation.node
        self._reserved[key].remove(reservation)
        if not self._reserved[key]:
            del self._reserved[key]
        self.limit.closed(reservation.pod)
