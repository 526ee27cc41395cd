"""A model of a stock kube-scheduler's scores, and what a policy is that chooses before it, instead of it, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.simulator import Fleet
from bench.simulator_published import Chooser, Pick
from bench.traces import Shape
from webhook.cli.simulating import scores
from webhook.placement.strategies import WEIGHTS

_IMAGE: Final = 100
Rows = NDArray[np.intp]
NO_ROWS: Final = np.zeros(0, np.intp)


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

    def bind(self, shape: Shape, ranked: Rows = NO_ROWS, weights: Sequence[int] = WEIGHTS) -> int | None:
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
        score = scores.resources(cpu, memory)
        if self.images:
            score += _IMAGE * (self.rng.random(len(rows)) < self.images)
        if len(ranked):
            wish = np.zeros(fleet.count, np.int64)
            wish[ranked] = weights[: len(ranked)]
            score += scores.affinity(wish[rows])
        best = rows[score == score.max()]
        return int(best[self.rng.integers(len(best))])


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
        return NO_ROWS

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None:
        return self.chooser.pick(shape, number)


class Stock:
    """The stock scheduler alone."""

    first = listed = ranked = 0

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def admit(self, number: int) -> Rows:
        return NO_ROWS

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None:
        row = self.scheduler.bind(shape)
        return None if row is None else Pick(row, None)

    def changed(self, row: int) -> None:
        pass
