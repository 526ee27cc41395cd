"""A model of a stock kube-scheduler's scores, and our ranking in front of it.

The ranking is the webhook's own: `strategies.Pack` over `Columns`, with a `View` of the demands that `History` has
counted so far. It sees what a webhook sees: sums by resource, never devices, and no pod that has not come yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.simulator import SHARE, WHOLE, Fleet, demand_of
from bench.simulator_published import Chooser, Pick
from bench.traces import Shape
from webhook.cluster.columns import Demand, Strategy, View
from webhook.cluster.history import History
from webhook.placement.strategies import STRATEGIES, WEIGHTS

_AFFINITY: Final = 200
"""What the best preferred node gets: NodeAffinity has weight 2, and scores are normalised to 100."""
_IMAGE: Final = 100
Rows = NDArray[np.intp]
_NONE: Final = np.zeros(0, np.intp)


class Scheduler(NamedTuple):
    """How the stock scheduler chooses: LeastAllocated and BalancedAllocation over CPU and memory, weight 1 each, whole
    numbers, random among the best (kubernetes/pkg/scheduler/framework/plugins/noderesources). Spreading counts for
    nothing: all nodes are alike to the neutral constraint that we inject, and without us a trace has no owners."""

    fleet: Fleet
    rng: np.random.Generator
    images: float = 0.0
    """Probability that a node has the pod's image, 20 GB large: worth 100 points there (ImageLocality)."""
    sampled: bool = False
    """Whether only a part of the nodes is looked at, as by default from 100 nodes on (percentageOfNodesToScore)."""

    def bind(self, shape: Shape, ranked: Rows = _NONE, weights: Sequence[int] = WEIGHTS) -> int | None:
        """The row that the pod is bound to, None where it fits nowhere. `ranked`: rows that it prefers."""
        fleet = self.fleet
        rows = np.flatnonzero(fleet.feasible(shape))
        if self.sampled and len(rows) > (seen := max(100, fleet.count * max(5, 50 - fleet.count // 125) // 100)):
            start = int(self.rng.integers(len(rows)))
            rows = np.sort(np.roll(rows, -start)[:seen])
        if not len(rows):
            return None
        cpu = (fleet.cpu[rows] - shape.cpu) / np.maximum(fleet.all_cpu[rows], 1)
        memory = (fleet.memory[rows] - shape.memory) / np.maximum(fleet.all_memory[rows], 1)
        score = ((cpu * 100).astype(np.int64) + (memory * 100).astype(np.int64)) // 2
        score += ((1 - np.abs(cpu - memory) / 2) * 100).astype(np.int64)
        if self.images:
            score += _IMAGE * (self.rng.random(len(rows)) < self.images)
        if len(ranked):
            wish = np.zeros(fleet.count, np.int64)
            wish[ranked] = weights[: len(ranked)]
            points = wish[rows]
            if points.max():  # normalised to the best feasible node, in whole numbers, then doubled
                score += 2 * (100 * points // points.max())
        best = rows[score == score.max()]
        return int(best[self.rng.integers(len(best))])


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
    ):
        self.fleet, self.count, self.every = fleet, count, every
        self.strategy = strategy or STRATEGIES["pack"]
        self.demands = [demand_of(shape, fleet.shared) for shape in shapes]
        self.shapes = shapes
        self.history = History()
        self.models = {name: number for number, name in enumerate(fleet.columns.models)}
        self.view = View(0, (SHARE if fleet.shared else WHOLE,))
        self.log: list[int] = []
        self.cached: dict[int, tuple[int, int, NDArray[np.float64]]] = {}

    def rank(self, number: int) -> Rows:
        """The best rows for a pod of this shape, best first."""
        if not (self.shapes[number].gpus or self.every):
            return _NONE
        score = self._scores(number)
        rows = np.flatnonzero(score > -np.inf)
        if len(rows) > 4 * self.count:
            known = score[rows]
            rows = rows[known >= np.partition(known, -self.count)[-self.count]]
        order = np.lexsort((self.fleet.by_name[rows], -score[rows]))
        return rows[order[: self.count]]

    def seen(self, number: int) -> None:
        """A pod with GPUs that was promised a node, or was bound, has come by the watch."""
        shape = self.shapes[number]
        if shape.gpus:
            self.history.add(self.demands[number], shape.models or None)
            if self.history.version != self.view.version:
                self.view = View(self.history.version, self.view.gpus, self.history.popular(self.models))

    def promise(self, row: int, number: int, sign: int = 1) -> None:
        """Enter a pick into the ledger, or take it out again (`sign` -1)."""
        for resource, amount in self.demands[number].requests:
            self.fleet.columns.free[resource][row] -= sign * amount
        self.fleet.columns.changes.add(row)
        self.changed(row)

    def changed(self, row: int) -> None:
        self.log.append(row)

    def _scores(self, number: int) -> NDArray[np.float64]:
        version, read, score = self.cached.get(number, (-1, 0, np.zeros(self.fleet.count)))
        stale = version != self.view.version
        rows = np.arange(self.fleet.count) if stale else np.fromiter(set(self.log[read:]), np.intp)
        if len(rows):
            demand = self.demands[number]
            scored = self.strategy(self.fleet.columns, rows, demand, self.view)
            score[rows] = np.where(self._fits(rows, demand, self.shapes[number]), scored, -np.inf)
        self.cached[number] = (self.view.version, len(self.log), score)
        return score

    def _fits(self, rows: NDArray[np.intp], demand: Demand, shape: Shape) -> NDArray[np.bool_]:
        free = self.fleet.columns.free
        mask = self.fleet.allowed(shape.models)[rows].copy()
        for resource, amount in demand.requests:
            mask &= free[resource][rows] >= amount
        return mask


class Policy(Protocol):
    """A pod is admitted first, and placed later: other pods of the same burst come between."""

    first: int
    """Pods bound to the node that was ranked first."""
    listed: int
    """Pods bound to any node of their list."""
    ranked: int
    """Pods that had a list."""

    def admit(self, number: int) -> Rows: ...

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None: ...

    def changed(self, row: int) -> None: ...


class AtOnce:
    """A policy that chooses when the pod is bound: the published ones."""

    first = listed = ranked = 0

    def __init__(self, chooser: Chooser) -> None:
        self.chooser, self.changed = chooser, chooser.changed

    def admit(self, number: int) -> Rows:
        return _NONE

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None:
        return self.chooser.pick(shape, number)


class Stock:
    """The stock scheduler alone."""

    first = listed = ranked = 0

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def admit(self, number: int) -> Rows:
        return _NONE

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None:
        row = self.scheduler.bind(shape)
        return None if row is None else Pick(row, None)

    def changed(self, row: int) -> None:
        pass


class Ours:
    """Nodes ranked at admission, with a ledger. `exact`: the pod goes to the first of them that takes it, and only
    where none does the scheduler chooses; else the scheduler always does, and sees ten preferred nodes."""

    def __init__(self, ranking: Ranking, scheduler: Scheduler, *, exact: bool, weights: Sequence[int] = WEIGHTS):
        self.ranking, self.scheduler, self.exact, self.weights = ranking, scheduler, exact, weights
        self.first = self.listed = self.ranked = 0

    def admit(self, number: int) -> Rows:
        ranked = self.ranking.rank(number)
        if len(ranked):
            self.ranking.promise(int(ranked[0]), number)
            self.ranking.seen(number)
        return ranked

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None:
        if len(ranked):
            self.ranking.promise(int(ranked[0]), number, -1)
        fits = self.scheduler.fleet.feasible(shape)[ranked]
        if self.exact and fits.any():
            row: int | None = int(ranked[fits.argmax()])
        else:
            row = self.scheduler.bind(shape, _NONE if self.exact else ranked, self.weights)
        if row is None:
            return None
        if not len(ranked):
            self.ranking.seen(number)
        else:
            self.ranked += 1
            self.first += row == ranked[0]
            self.listed += row in ranked
        return Pick(row, None)

    def changed(self, row: int) -> None:
        self.ranking.changed(row)
