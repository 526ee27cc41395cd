"""Our ranking in front of the modelled scheduler.

It is the webhook's own: `strategies.Pack` over `Columns`, with a `View` of the demands that `History` has counted so far.
It sees what a webhook sees: sums by resource, never devices, and no pod that has not come yet. Of several replicas each
sees what the others chose only some pods later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.simulator import SHARE, WHOLE, Fleet, demand_of
from bench.simulator_published import Pick
from bench.simulator_scheduler import NO_ROWS, Rows, Scheduler
from bench.traces import Shape
from webhook.cluster.history import History
from webhook.cluster.node_table import Demand, Strategy, View
from webhook.cluster.replicas import replica_penalty, share
from webhook.placement.strategies import STRATEGIES


class Ranking:
    """The webhook: ranks nodes, and keeps a ledger of its own picks. `every`: pods without GPUs are ranked as well, as
    the published policies do; the webhook leaves those to the scheduler, and on most clusters taints keep them away."""

    def __init__(
        self,
        fleet: Fleet,
        shapes: Sequence[Shape],
        strategy: Strategy | None = None,
        count: int = 10,
        every: bool = True,
        replica: int = 0,
    ):
        self.fleet, self.count, self.every = fleet, count, every
        self.columns = fleet.views[replica]
        self.gpu = SHARE if fleet.shared else WHOLE
        self.several = len(fleet.views) > 1
        replicas = [f"replica-{number}" for number in range(len(fleet.views))]
        for row, name in enumerate(self.columns.name):
            self.columns.share[row] = share(name, replicas[replica], replicas)
        self.strategy = strategy or STRATEGIES["pack"]
        self.demands = [demand_of(shape, fleet.shared) for shape in shapes]
        self.shapes = shapes
        self.history = History()
        self.models = {name: number for number, name in enumerate(self.columns.models)}
        self.view = View(0, (self.gpu,))
        self.log: list[int] = []
        self.cached: dict[int, tuple[int, int, NDArray[np.float64]]] = {}

    def rank(self, number: int) -> Rows:
        """The best rows for a pod of this shape, best first."""
        if not (self.shapes[number].gpus or self.every):
            return NO_ROWS
        score = self._scores(number)
        rows = np.flatnonzero(score > -np.inf)
        if len(rows) > 4 * self.count:
            known = score[rows]
            rows = rows[known >= np.partition(known, -self.count)[-self.count]]
        order = np.lexsort((self.fleet.by_name[rows], self.columns.share[rows], -score[rows]))
        return rows[order[: self.count]]

    def seen(self, number: int) -> None:
        """A pod with GPUs that has a reservation on a node, or was bound, has come by the watch."""
        shape = self.shapes[number]
        if shape.gpus:
            self.history.add(self.demands[number], shape.models or None)
            if self.history.version != self.view.version:
                self.view = View(self.history.version, self.view.gpus, self.history.popular(self.models))

    def reserve(self, row: int, number: int) -> None:
        """Enter a pick into the ledger: one of this replica, or what is heard of another's."""
        self._take(row, number, 1)

    def kept(self, row: int, number: int) -> None:
        """Take it out again. Its pod is bound at once, so that no node is empty in between."""
        self._take(row, number, -1)

    def changed(self, row: int) -> None:
        """A pod was bound there, or has left."""
        self.log.append(row)

    def _take(self, row: int, number: int, sign: int) -> None:
        for resource, amount in self.demands[number].requests:
            self.columns.free[resource][row] -= sign * amount
        self.columns.changes.add(row)
        self.log.append(row)

    def _scores(self, number: int) -> NDArray[np.float64]:
        version, read, score = self.cached.get(number, (-1, 0, np.zeros(self.fleet.count)))
        stale = version != self.view.version
        rows = np.arange(self.fleet.count) if stale else np.fromiter(set(self.log[read:]), np.intp)
        if len(rows):
            demand, shape = self.demands[number], self.shapes[number]
            scored = self.strategy(self.columns, rows, demand, self.view)
            if self.several:
                scored = scored - replica_penalty(
                    self.columns, rows, demand, self.gpu if shape.gpus else None, burst=True
                )
            score[rows] = np.where(self._fits(rows, demand, shape), scored, -np.inf)
        self.cached[number] = (self.view.version, len(self.log), score)
        return score

    def _fits(self, rows: NDArray[np.intp], demand: Demand, shape: Shape) -> NDArray[np.bool_]:
        free = self.columns.free
        mask = self.fleet.allowed(shape.models)[rows].copy()
        for resource, amount in demand.requests:
            mask &= free[resource][rows] >= amount
        return mask


class Ours:
    """Nodes ranked at admission, with a ledger. `exact`: the pod goes to the first of them that takes it, and only
    where none does the scheduler chooses; else the scheduler always does, and sees ten preferred nodes.

    `rankings`: one for each replica. Pods go to any of them, and the others hear of a choice `unseen` pods later, or when
    the pod is bound."""

    def __init__(self, rankings: Sequence[Ranking], scheduler: Scheduler, *, exact: bool, unseen: int = 0) -> None:
        self.rankings, self.scheduler, self.exact, self.unseen = rankings, scheduler, exact, unseen
        self.first = self.listed = self.ranked = 0
        self._told: deque[tuple[Ranking, int, int]] = deque()

    def admit(self, number: int) -> Rows:
        several = len(self.rankings) > 1
        here = self.rankings[int(self.scheduler.rng.integers(len(self.rankings)))] if several else self.rankings[0]
        ranked = here.rank(number)
        if len(ranked):
            here.reserve(int(ranked[0]), number)
            here.seen(number)
            self._told.append((here, int(ranked[0]), number))
        self._tell(self.unseen)
        return ranked

    def _tell(self, unseen: int) -> None:
        """The pods of all choices but the last ones are in the watch, of all replicas."""
        while len(self._told) > unseen:
            where, row, number = self._told.popleft()
            for ranking in self.rankings:
                if ranking is not where:
                    ranking.reserve(row, number)
                    ranking.seen(number)

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None:
        self._tell(0)
        if len(ranked):
            for ranking in self.rankings:
                ranking.kept(int(ranked[0]), number)
        fits = self.scheduler.fleet.feasible(shape)[ranked]
        if self.exact and fits.any():
            row: int | None = int(ranked[fits.argmax()])
        else:
            row = self.scheduler.bind(shape, NO_ROWS if self.exact else ranked)
        if row is None:
            return None
        if not len(ranked):
            for ranking in self.rankings:
                ranking.seen(number)
        else:
            self.ranked += 1
            self.first += row == ranked[0]
            self.listed += row in ranked
        return Pick(row, None)

    def changed(self, row: int) -> None:
        for ranking in self.rankings:
            ranking.changed(row)
