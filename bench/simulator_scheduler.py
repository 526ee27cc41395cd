"""A model of the stock kube-scheduler, and the interface of policies that choose nodes before it or instead of it."""

from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.simulator import Fleet
from bench.simulator_published import Chooser, Pick
from bench.traces import Shape
from webhook.placement.strategies import WEIGHTS
from webhook.whatif import scheduler as scores

_IMAGE: Final = 100
"""Points of ImageLocality for a node that has the image."""
Rows = NDArray[np.intp]
"""Rows of nodes."""
NO_ROWS: Final = np.zeros(0, np.intp)


class Scheduler(NamedTuple):
    """The stock scheduler: scores LeastAllocated and BalancedAllocation over CPU and memory, weight 1 each, in whole numbers, and
    a random one of the best nodes (k8s.io/kubernetes pkg/scheduler/framework/plugins/noderesources).

    Topology spread is left out: the constraint that we inject is the same for all nodes, and pods of a trace have no owners.
    """

    fleet: Fleet
    rng: np.random.Generator
    images: float = 0.0
    """Probability that a node has the pod's image of 20 GB, which gives it 100 points (ImageLocality)."""
    sampled: bool = False
    """Whether it looks at a part of the nodes only, which is the default from 100 nodes on (percentageOfNodesToScore)."""

    def bind(self, shape: Shape, ranked: Rows = NO_ROWS) -> int | None:
        """The row of the node that the pod is bound to; None if it fits nowhere. `ranked`: rows that the pod prefers."""
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
            preference = np.zeros(fleet.count, np.int64)
            preference[ranked] = WEIGHTS[: len(ranked)]
            score += scores.affinity(preference[rows])
        best = rows[score == score.max()]
        return int(best[self.rng.integers(len(best))])


class Policy(Protocol):
    """How pods are placed. All pods of a burst are admitted before the first of them is bound."""

    first: int
    """Number of pods bound to the first ranked node."""
    listed: int
    """Number of pods bound to any ranked node."""
    ranked: int
    """Number of bound pods that had ranked nodes."""

    def admit(self, number: int) -> Rows:
        """The ranked rows for a pod of shape `number`, best first."""

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None:
        """Where the pod is bound; None if it fits nowhere. `ranked`: what `admit` returned for it."""

    def changed(self, row: int, pod: int, number: int | None) -> None:
        """A pod of shape `number` was bound to the node of this row, or ended there (None)."""


class AtOnce:
    """A policy that ranks nothing at admission: the chooser chooses when the pod is bound."""

    first = listed = ranked = 0

    def __init__(self, chooser: Chooser) -> None:
        self.chooser, self.changed = chooser, chooser.changed

    def admit(self, number: int) -> Rows:
        return NO_ROWS

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None:
        return self.chooser.pick(shape, number)


class Stock(Chooser):
    """The stock scheduler alone."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def pick(self, shape: Shape, number: int) -> Pick | None:
        row = self.scheduler.bind(shape)
        return None if row is None else Pick(row, None)
