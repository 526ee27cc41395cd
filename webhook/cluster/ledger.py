"""GPUs promised to pods that were admitted and are not yet bound.

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

Both states hold the pod's demand on the first of its ranked nodes. Admission runs before names and uids exist, so a
reservation is known by what stays true: namespace, owner or generated name, first node and GPUs; not by CPU and memory,
which a webhook after ours may add to with a sidecar. Reservations with the same key are alike; a pod that is seen uses
up the oldest, and from then on its own demand is held. A pod that another replica admitted is recognised by its
decision annotation in the same way, without a reservation.

A pod that is stored is in the watch within moments. One that is not seen soon was refused (by our own validating hook, by
quota, by another hook), and a controller that is refused tries again and again: so a reservation lives for a shorter time than
a pod may wait to be bound. No review gives one back: it may be forged. And anybody who reaches the port can ask: how many may be
open to an owner is `Credit`'s to say.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Literal, NamedTuple

from webhook.cluster.credit import Credit
from webhook.cluster.pods import PodKey
from webhook.cluster.usage import Kind, Usage

_NONE: Final[dict[str, list[_Held]]] = {}
Bound = Literal["unpromised", "promised", "counted"]
"""Of a pod that is bound: nothing was promised to it; something was; and what was held is the pod's, so it counts already."""


class _Held:
    """One reservation or one claim. `row` is -1 once it holds nothing."""

    __slots__ = ("kind", "node", "nodes", "pod", "reserved", "row", "until")

    def __init__(self, pod: PodKey, node: str, row: int, kind: Kind, until: float) -> None:
        self.pod = pod
        self.node = node
        """The first of the ranked ones."""
        self.reserved = False
        """It is one of those that wait for a pod."""
        self.nodes: tuple[str, ...] = ()
        """The ranked nodes, once the pod is seen: it names them. Before that there may be thousands, and none is looked at."""
        self.row = row
        self.kind = kind
        self.until = until


class Counts(NamedTuple):
    reserved: int
    """Promised here, pod not yet seen."""
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
        """Where pods with a promise were bound: on their first choice, on another of their ranked nodes, elsewhere."""
        self.ended: dict[str, int] = {"bound": 0, "gone": 0, "expired": 0, "unschedulable": 0}
        """How promises ended."""
        self.credit = Credit()
        self._usage = usage
        self._reserved: dict[PodKey, dict[str, list[_Held]]] = {}
        """By pod and first node, oldest first. One dictionary of all would be too large for the caches."""
        self._seen: dict[int | str, _Held] = {}
        self._unseen: deque[_Held] = deque()
        self._waiting: deque[_Held] = deque()
        self._counts = [0, 0]

    @property
    def counts(self) -> Counts:
        return Counts(*self._counts)

    @property
    def reserving(self) -> bool:
        """Whether anything is reserved."""
        return bool(self._reserved)

    def reserve(self, pod: PodKey, node: str, kind: Kind, now: float) -> None:
        """Admitted here, with this node ranked first."""
        held = self._hold(pod, node, kind, now + self.unseen_ttl)
        held.reserved = True
        self._unseen.append(held)
        nodes = self._reserved.get(pod)
        if nodes is None:
            nodes = self._reserved[pod] = {}
        if node in nodes:
            nodes[node].append(held)
        else:
            nodes[node] = [held]  # a deque takes ten times as much, and most hold one
        self._counts[0] += 1
        self.credit.opened(pod)

    def seen(self, uid: int | str, pod: PodKey, nodes: tuple[str, ...], kind: Kind, now: float) -> bool:
        """The pod exists and is not bound. False where that was known, or is what was reserved for."""
        if uid in self._seen:
            return False
        held = self._use_up(pod, nodes[0], kind)
        new = held is None
        if held is None:
            held = self._hold(pod, nodes[0], kind, now)
        else:
            self._becomes(held, kind)
        self._usage.claimed(held.row, kind, this=not new)
        held.nodes, held.until = nodes, now + self.ttl
        self._waiting.append(held)
        self._counts[1] += 1
        self._seen[uid] = held
        return new

    def waits(self, uid: int | str) -> bool:
        """Whether the pod was seen, and not yet bound."""
        return uid in self._seen

    def unschedulable(self, uid: int | str) -> None:
        """The scheduler found no node for the pod: it waits, and holds nothing meanwhile."""
        held = self._seen.get(uid)
        if held is not None and held.row >= 0:
            self._counts[1] -= 1
            self.ended["unschedulable"] += 1
            self._let_go(held)

    def bound(self, uid: int | str, pod: PodKey, nodes: tuple[str, ...], kind: Kind, node: str) -> Bound:
        """The pod is on a node: what was held there counts as the pod's now, what was held elsewhere is given back."""
        held = self._seen.pop(uid, None)
        if held is not None:
            nodes = held.nodes
            if held.row >= 0:
                self._counts[1] -= 1
        else:
            held = self._use_up(pod, nodes[0], kind) if nodes else None
            if held is None:
                return "unpromised"
        where = "first" if node == nodes[0] else "ranked" if node in nodes else "other"
        self.honoured[where] += 1
        self.ended["bound"] += 1
        if held.row >= 0 and held.row == self._usage.nodes.row_of.get(node):
            self._becomes(held, kind)
            held.row = -1
            return "counted"
        self._let_go(held)
        return "promised"

    def gone(self, uid: int | str) -> None:
        """The pod was deleted, or finished, before it was bound."""
        held = self._seen.pop(uid, None)
        if held is not None and held.row >= 0:
            self._counts[1] -= 1
            self.ended["gone"] += 1
            self._let_go(held)

    def expire(self, now: float) -> None:
        """Give back what was promised for too long to a pod that was not seen, or not bound."""
        unseen = self._unseen
        while unseen and (not unseen[0].reserved or unseen[0].until <= now):  # that of one that was seen is another
            held = unseen.popleft()
            if held.reserved:
                self._take_out(held)
                self.ended["expired"] += 1
                self._let_go(held)
        while self._waiting and self._waiting[0].until <= now:
            held = self._waiting.popleft()
            if held.row >= 0:
                self._counts[1] -= 1
                self.ended["expired"] += 1
                self._let_go(held)

    def holders(self) -> list[tuple[int, Kind]]:
        """Every row and kind that is held now."""
        reserved = [held for held in self._unseen if held.reserved]
        return [(held.row, held.kind) for held in (*reserved, *self._seen.values()) if held.row >= 0]

    def waiting(self) -> list[int | str]:
        """The pods that were seen and are not yet bound."""
        return list(self._seen)

    def _hold(self, pod: PodKey, node: str, kind: Kind, until: float) -> _Held:
        row = self._usage.nodes.row(node)
        return _Held(pod, node, row, self._usage.take(row, kind), until)

    def _becomes(self, held: _Held, kind: Kind) -> None:
        """The pod asks for something else than what was promised."""
        if held.kind is not kind:
            before, held.kind = held.kind, self._usage.take(held.row, kind)
            self._usage.give_back(held.row, before)

    def _let_go(self, held: _Held) -> None:
        if held.row >= 0:
            row, held.row = held.row, -1
            self._usage.give_back(row, held.kind)

    def _use_up(self, pod: PodKey, node: str, kind: Kind) -> _Held | None:
        """The oldest reservation for such a pod on this node, taken out of the reserved ones."""
        for held in self._reserved.get(pod, _NONE).get(node, ()):
            if held.kind.gpus == kind.gpus:
                self._take_out(held)
                return held
        return None

    def _take_out(self, held: _Held) -> None:
        held.reserved = False
        nodes = self._reserved[held.pod]
        alike = nodes[held.node]
        alike.remove(held)
        if not alike:
            del nodes[held.node]
            if not nodes:
                del self._reserved[held.pod]
        self._counts[0] -= 1
        self.credit.closed(held.pod)
