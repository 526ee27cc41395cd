"""What pods take from nodes: free resources, and how many pods of each owner are where."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.cluster.node_table import Demand
from webhook.cluster.nodes import Nodes


class PodKind:
    """What equal pods share: demand and owner. Kept once, so that a pod costs two small numbers."""

    __slots__ = ("demand", "gpus", "held", "number", "owner")

    def __init__(self, demand: Demand, owner: str, number: int) -> None:
        self.demand = demand
        self.gpus = tuple([request for request in demand.requests if "/" in request[0]])
        """What is asked for of extended resources."""
        self.owner = owner
        """Who its peers belong to; "" where that does not matter."""
        self.number = number
        self.held = 0
        """How many pods, claims and reservations are of this kind."""


class Usage:
    """Keeps `columns.free` and the peers exact while pods come and go. `changes` names the rows where anything changed."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.changes = nodes.columns.changes
        self.peers: dict[str, dict[int, int]] = {}
        """Pods by owner and row; only where there are some."""
        self.kinds: list[PodKind | None] = []
        self._kind_of: dict[tuple[Demand, str], PodKind] = {}
        self._free_numbers: list[int] = []

    def kind(self, demand: Demand, owner: str) -> PodKind:
        """The one kind with this demand and owner. It lives while something is taken with it."""
        found = self._kind_of.get((demand, owner))
        return PodKind(demand, owner, -1) if found is None else found

    def take(self, row: int, kind: PodKind) -> PodKind:
        """One more pod of this kind on a row (bound or reserved). Returns the kind as it is kept."""
        kind = self._keep(kind) if kind.number < 0 else kind
        kind.held += 1
        free = self.nodes.columns.free_at
        for resource, amount in kind.demand.requests:
            if resource in free:
                free[resource][row] -= amount
        if kind.owner:
            rows = self.peers.setdefault(kind.owner, {})
            rows[row] = rows.get(row, 0) + 1
        self.changes.add(row)
        return kind

    def give_back(self, row: int, kind: PodKind) -> None:
        """One pod less."""
        free = self.nodes.columns.free_at
        for resource, amount in kind.demand.requests:
            if resource in free:
                free[resource][row] += amount
        if kind.owner:
            rows = self.peers[kind.owner]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
                if not rows:
                    del self.peers[kind.owner]
        if self.nodes.shares.several and self._untouched(row, kind):
            self.nodes.shares.emptied(row)
        self.changes.add(row)
        kind.held -= 1
        if not kind.held:
            self.kinds[kind.number] = None
            del self._kind_of[kind.demand, kind.owner]
            self._free_numbers.append(kind.number)
            kind.number = -1
        self.nodes.drop_if_unused(row)

    def reserved_pod_seen(self, row: int, kind: PodKind, *, this: bool) -> None:
        """A pod of this kind is in the watch, and its row was reserved by this replica or by another."""
        if self.nodes.shares.several and row >= 0 and kind.gpus and self.nodes.shares.took(row, this=this):
            self.changes.add(row)

    def recount(self, resource: str, holders: Iterable[tuple[int, PodKind]]) -> None:
        """Some node has a resource for the first time: take off what pods hold of it already."""
        free = self.nodes.columns.free[resource]
        for row, kind in holders:
            amount = kind.demand.amount(resource)
            if amount:
                free[row] -= amount
                self.changes.add(row)

    def _untouched(self, row: int, kind: PodKind) -> bool:
        """Whether nobody has anything of the GPUs that this kind asks for."""
        columns = self.nodes.columns
        return bool(kind.gpus) and all(
            [
                columns.free[name].item(row) >= columns.capacity[name].item(row)
                for name, _ in kind.gpus
                if name in columns.free
            ]
        )

    def _keep(self, kind: PodKind) -> PodKind:
        known = self._kind_of.get((kind.demand, kind.owner))
        if known is not None:
            return known
        kind.number = self._free_numbers.pop() if self._free_numbers else len(self.kinds)
        if kind.number == len(self.kinds):
            self.kinds.append(kind)
        else:
            self.kinds[kind.number] = kind
        self._kind_of[kind.demand, kind.owner] = kind
        return kind
