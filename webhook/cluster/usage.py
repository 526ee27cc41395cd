"""What pods use of nodes: the free resources, and how many pods of each owner are on each node."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.cluster.node_table import Demand
from webhook.cluster.nodes import Nodes


class PodKind:
    """Demand and owner of pods. Equal pods share one object, so that a pod takes little memory."""

    __slots__ = ("count", "demand", "gpus", "owner")

    def __init__(self, demand: Demand, owner: str) -> None:
        self.demand = demand
        self.gpus = tuple([request for request in demand.requests if "/" in request[0]])
        """The requests for extended resources."""
        self.owner = owner
        """The owner of the pods; "" if it does not matter."""
        self.count = 0
        """Number of pods and reservations of this kind."""


class Usage:
    """Keeps `columns.free` and `peers` exact while pods come and go. `changes` names the rows that changed."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.changes = nodes.columns.changes
        self.peers: dict[str, dict[int, int]] = {}
        """Number of pods by owner and row; only numbers above zero."""
        self._kinds: dict[tuple[Demand, str], PodKind] = {}

    def kind(self, demand: Demand, owner: str) -> PodKind:
        """The kind with this demand and owner. It is shared while pods of it exist."""
        return self._kinds.get((demand, owner)) or PodKind(demand, owner)

    def take(self, row: int, kind: PodKind) -> PodKind:
        """Add a pod of this kind to a row (bound or reserved). Returns the kind as it is kept."""
        if not kind.count:
            kind = self._kinds.setdefault((kind.demand, kind.owner), kind)
        kind.count += 1
        self._add(row, kind, -1)
        if kind.owner:
            rows = self.peers.setdefault(kind.owner, {})
            rows[row] = rows.get(row, 0) + 1
        return kind

    def give_back(self, row: int, kind: PodKind) -> None:
        """Remove a pod of this kind from a row."""
        self._add(row, kind, 1)
        if kind.owner:
            rows = self.peers[kind.owner]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
                if not rows:
                    del self.peers[kind.owner]
        kind.count -= 1
        if not kind.count:
            del self._kinds[kind.demand, kind.owner]
        self.nodes.drop_if_unused(row)

    def recount(self, resource: str, holders: Iterable[tuple[int, PodKind]]) -> None:
        """A resource is on some node for the first time: subtract what pods use of it already."""
        free = self.nodes.columns.free[resource]
        for row, kind in holders:
            if amount := kind.demand.amount(resource):
                free[row] -= amount
                self.changes.add(row)

    def _add(self, row: int, kind: PodKind, sign: int) -> None:
        free = self.nodes.columns.free
        for resource, amount in kind.demand.requests:
            if resource in free:
                free[resource][row] += sign * amount
        self.changes.add(row)
