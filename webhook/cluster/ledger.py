"""GPUs promised to pods that were admitted and are not yet bound.

    admitted here            admitted elsewhere
         │ reserve                │
         ▼          seen          ▼
     ┌──────────┐ ─────────► ┌────────┐  bound   the pod is on a node and counts there
     │ reserved │            │  seen  │ ───────►
     └──────────┘ ─────────► └────────┘  gone    deleted or finished before it was bound
         │   seen bound at once   │ ───────►
         │ expire                 │ expire       its time is over, or the scheduler said that it fits nowhere
         │ release                │              our own validating hook refused the pod
         ▼                        ▼
      nothing                  nothing held; remembered until bound or gone

Both states hold the pod's demand on the first of its ranked nodes. Admission runs before names and uids exist, so a
reservation is known by what stays true: namespace, owner or generated name, first node and GPUs; not by CPU and memory,
which a webhook after ours may add to with a sidecar. Reservations with the same key are alike; a pod that is seen uses
up the oldest, and from then on its own demand is held. A pod that another replica admitted is recognised by its
decision annotation in the same way, without a reservation.

A pod that is stored is in the watch within moments. One that is not seen soon was refused (by quota, by another hook),
and a controller that is refused tries again and again: so a reservation lives for a shorter time than a pod may wait to
be bound.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, NamedTuple

from webhook.cluster.pods import PodKey
from webhook.cluster.usage import Kind, Usage

Key = tuple[PodKey, str, tuple[tuple[str, int], ...]]
Bound = Literal["unpromised", "promised", "counted"]
"""Of a pod that is bound: nothing was promised to it; something was; and what was held is the pod's, so it counts already."""


class _Held:
    """One reservation or one claim. `row` is -1 once it holds nothing."""

    __slots__ = ("key", "kind", "nodes", "row", "until")

    def __init__(self, key: Key, row: int, kind: Kind, until: float) -> None:
        self.key = key
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
        self.ended: dict[str, int] = {"bound": 0, "gone": 0, "expired": 0, "unschedulable": 0, "refused": 0}
        """How promises ended."""
        self._usage = usage
        self._reserved: dict[Key, list[_Held]] = {}
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
        held = self._hold((pod, node, kind.gpus), kind, now + self.unseen_ttl)
        self._unseen.append(held)
        alike = self._reserved.setdefault(held.key, [held])  # a deque takes ten times as much, and most hold one
        if alike[-1] is not held:
            alike.append(held)
        self._counts[0] += 1

    def release(self, pod: PodKey, node: str, kind: Kind) -> None:
        """Refused after it was admitted: the pod will not come."""
        held = self._use_up((pod, node, kind.gpus))
        if held is not None:
            self.ended["refused"] += 1
            self._let_go(held)

    def seen(self, uid: int | str, pod: PodKey, nodes: tuple[str, ...], kind: Kind, now: float) -> bool:
        """The pod exists and is not bound. False where that was known, or is what was reserved for."""
        if uid in self._seen:
            return False
        key = pod, nodes[0], kind.gpus
        held = self._use_up(key)
        new = held is None
        if held is None:
            held = self._hold(key, kind, now)
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
            held = self._use_up((pod, nodes[0], kind.gpus)) if nodes else None
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
        while self._unseen and self._unseen[0].until <= now:
            held = self._unseen.popleft()
            alike = self._reserved.get(held.key)
            if alike is not None and alike[0] is held:
                self._take_out(held.key, alike)
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
        reserved = (held for alike in self._reserved.values() for held in alike)
        return [(held.row, held.kind) for held in (*reserved, *self._seen.values()) if held.row >= 0]

    def waiting(self) -> list[int | str]:
        """The pods that were seen and are not yet bound."""
        return list(self._seen)

    def _hold(self, key: Key, kind: Kind, until: float) -> _Held:
        row = self._usage.nodes.row(key[1])
        return _Held(key, row, self._usage.take(row, kind), until)

    def _becomes(self, held: _Held, kind: Kind) -> None:
        """The pod asks for something else than what was promised."""
        if held.kind is not kind:
            before, held.kind = held.kind, self._usage.take(held.row, kind)
            self._usage.give_back(held.row, before)

    def _let_go(self, held: _Held) -> None:
        if held.row >= 0:
            row, held.row = held.row, -1
            self._usage.give_back(row, held.kind)

    def _use_up(self, key: Key) -> _Held | None:
        """The oldest reservation of this key, taken out of the reserved ones."""
        alike = self._reserved.get(key)
        return self._take_out(key, alike) if alike else None

    def _take_out(self, key: Key, alike: list[_Held]) -> _Held:
        held = alike.pop(0)
        if not alike:
            del self._reserved[key]
        self._counts[0] -= 1
        return held
