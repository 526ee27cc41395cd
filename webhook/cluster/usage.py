"""What pods take from nodes: free resources, and how many pods of each owner are where."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.cluster.node_table import Demand
from webhook.cluster.nodes import Nodes


class PodKind:
    """What equal pods share: demand and owner. One object for all of them, so that a pod costs little memory."""

    __slots__ = ("demand", "gpus", "held", "owner")

    def __init__(self, demand: Demand, owner: str) -> None:
        self.demand = demand
        self.gpus = tuple([request for request in demand.requests if "/" in request[0]])
        """What is asked for of extended resources."""
        self.owner = owner
        """Who its peers belong to; "" where that does not matter."""
        self.held = 0
        """How many pods and reservations are of this kind."""


class Usage:
    """Keeps `columns.free` and the peers exact while pods come and go. `changes` names the rows where anything changed."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.changes = nodes.columns.changes
        self.peers: dict[str, dict[int, int]] = {}
        """Pods by owner and row; only where there are some."""
        self._kinds: dict[tuple[Demand, str], PodKind] = {}

    def kind(self, demand: Demand, owner: str) -> PodKind:
        """The one kind with this demand and owner. It is known while something is taken with it."""
        return self._kinds.get((demand, owner)) or PodKind(demand, owner)

    def take(self, row: int, kind: PodKind) -> PodKind:
        """One more pod of this kind on a row (bound or reserved). Returns the kind as it is kept."""
        if not kind.held:
            kind = self._kinds.setdefault((kind.demand, kind.owner), kind)
        kind.held += 1
        self._add(row, kind, -1)
        if kind.owner:
            rows = self.peers.setdefault(kind.owner, {})
            rows[row] = rows.get(row, 0) + 1
        return kind

    def give_back(self, row: int, kind: PodKind) -> None:
        """One pod less."""
        self._add(row, kind, 1)
        if kind.owner:
            rows = self.peers[kind.owner]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
                if not rows:
                    del self.peers[kind.owner]
        kind.held -= 1
        if not kind.held:
            del self._kinds[kind.demand, kind.owner]
        self.nodes.drop_if_unused(row)

    def recount(self, resource: str, holders: Iterable[tuple[int, PodKind]]) -> None:
        """Some node has a resource for the first time: take off what pods hold of it already."""
        free = self.nodes.columns.free[resource]
        for row, kind in holders:
            amount = kind.demand.amount(resource)
            if amount:
                free[row] -= amount
                self.changes.add(row)

    def _add(self, row: int, kind: PodKind, sign: int) -> None:
        free = self.nodes.columns.free
        for resource, amount in kind.demand.requests:
            if resource in free:
                free[resource][row] += sign * amount
        self.changes.add(row)
