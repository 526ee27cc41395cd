"""The published policies that the benchmark is checked against: plain random, best-fit and FGD, ties by name.

They choose node and device themselves, with everything in sight, as the authors' scheduler does (USENIX ATC'23,
github.com/hkust-adsl/kubernetes-scheduler-simulator).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.simulator import Fleet
from bench.traces import MILLI, Shape

_CPU, _GPUS = 128_000, 8 * MILLI  # what best-fit divides by: the largest node
_COVERED = 0.95  # FGD looks at the shapes that make up so much of all pods


class Pick(NamedTuple):
    row: int
    device: int | None
    """For a part of a GPU; None: the fullest device that fits."""


class Chooser(Protocol):
    def pick(self, shape: Shape, number: int) -> Pick | None:
        """Where a pod goes, or None where it fits nowhere. `number`: of its shape."""

    def changed(self, row: int) -> None:
        """A pod was bound to the node of this row, or left it."""


class Random:
    def __init__(self, fleet: Fleet, rng: np.random.Generator) -> None:
        self.fleet, self.rng = fleet, rng

    def pick(self, shape: Shape, number: int) -> Pick | None:
        rows = np.flatnonzero(self.fleet.feasible(shape))
        if not len(rows):
            return None
        row = int(self.rng.choice(rows))
        if not shape.gpus or shape.whole:
            return Pick(row, None)
        return Pick(row, int(self.rng.choice(np.flatnonzero(self.fleet.devices[row] >= shape.milli))))

    def changed(self, row: int) -> None:
        pass


class BestFit:
    """The fullest node that fits: least of ½ free CPU / 128 + ½ free GPUs / 8."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def pick(self, shape: Shape, number: int) -> Pick | None:
        fleet = self.fleet
        rows = np.flatnonzero(fleet.feasible(shape))
        if not len(rows):
            return None
        left = 0.5 * (fleet.cpu[rows] - shape.cpu) / _CPU + 0.5 * (fleet.milli[rows] - shape.amount) / _GPUS
        score = ((1 - left) * 100).astype(np.int64)
        best = rows[score == score.max()]
        return Pick(int(best[fleet.by_name[best].argmin()]), None)

    def changed(self, row: int) -> None:
        pass


class Fragmentation:
    """FGD: the node whose idle GPUs that popular shapes cannot use grow least."""

    def __init__(self, fleet: Fleet, pods: Sequence[Shape], random_ties: np.random.Generator | None = None) -> None:
        self.fleet, self.random_ties = fleet, random_ties
        self.popular, self.share = _popular(pods)
        self.need = np.array([[shape.cpu, shape.gpus, shape.milli] for shape in self.popular], np.int64).T
        self.reach = np.array([fleet.allowed(shape.models) for shape in self.popular]).T
        self.whole_only = bool((self.need[2] % MILLI == 0).all())
        self.log: list[int] = []
        self.now = np.zeros(fleet.count)
        self.now[:] = self._idle(fleet.cpu, fleet.devices, self.reach)
        self.scores: dict[int, tuple[int, NDArray[np.int64], NDArray[np.intp]]] = {}

    def pick(self, shape: Shape, number: int) -> Pick | None:
        fleet = self.fleet
        rows = np.flatnonzero(fleet.feasible(shape))
        if not len(rows):
            return None
        score, device = self._scores(shape, number)
        known = score[rows]
        best = rows[known == known.max()]
        ties = self.random_ties
        row = int(best[fleet.by_name[best].argmin()] if ties is None else ties.choice(best))
        return Pick(row, int(device[row]) if shape.gpus and not shape.whole else None)

    def changed(self, row: int) -> None:
        self.log.append(row)
        self.now[row] = self._idle(self.fleet.cpu[row : row + 1], self.fleet.devices[row : row + 1], self.reach[[row]])[
            0
        ]

    def _scores(self, shape: Shape, number: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """By row; only rows changed since this shape was last seen are computed again."""
        if number not in self.scores:
            empty = np.zeros(self.fleet.count, np.int64)
            self.scores[number] = (len(self.log), empty, np.zeros(self.fleet.count, np.intp))
            rows = np.arange(self.fleet.count)
        else:
            rows = np.unique(np.array(self.log[self.scores[number][0] :], np.intp))
        _, score, device = self.scores[number]
        if len(rows):
            score[rows], device[rows] = self._compute(rows, shape)
        self.scores[number] = (len(self.log), score, device)
        return score, device

    def _compute(self, rows: NDArray[np.intp], shape: Shape) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        cpu, devices, reach = self.fleet.cpu[rows] - shape.cpu, self.fleet.devices[rows], self.reach[rows]
        if not shape.gpus or shape.whole:
            idle = self._idle(cpu, _without(devices, shape.gpus), reach)
            return _score(self.now[rows] - idle), np.zeros(len(rows), np.intp)
        best = np.full(len(rows), -1, np.int64)
        device = np.zeros(len(rows), np.intp)
        for index in range(devices.shape[1]):
            fits = np.flatnonzero(devices[:, index] >= shape.milli)
            if len(fits):
                after = devices[fits]
                after[:, index] -= shape.milli
                score = _score(self.now[rows[fits]] - self._idle(cpu[fits], after, reach[fits]))
                better = score > best[fits]
                best[fits[better]], device[fits[better]] = score[better], index
        return best, device

    def _idle(
        self, cpu: NDArray[np.int64], devices: NDArray[np.int64], reach: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Expected idle thousandths that a popular shape cannot use, by row."""
        need_cpu, need_gpus, need_milli = self.need
        total = devices.sum(axis=1)
        enough = devices[:, :, None] >= need_milli
        fits = (cpu[:, None] >= need_cpu) & (enough.sum(axis=1) >= need_gpus) & (need_gpus > 0) & reach
        useless = total[:, None] - np.einsum("rd,rdk->rk", devices, enough)
        expected: NDArray[np.float64] = np.where(fits, useless, total[:, None]) @ self.share
        return expected


def _without(devices: NDArray[np.int64], gpus: int) -> NDArray[np.int64]:
    """The first `gpus` whole devices of each row taken."""
    if not gpus:
        return devices
    free = devices == MILLI
    return np.where(free & (free.cumsum(axis=1) <= gpus), 0, devices)


def _score(fall: NDArray[np.float64]) -> NDArray[np.int64]:
    """0 to 100 in whole numbers, as the authors' scheduler has them."""
    return (100 / (1 + np.exp(-np.clip(fall / MILLI, -50, 50)))).astype(np.int64)


def _popular(pods: Sequence[Shape]) -> tuple[list[Shape], NDArray[np.float64]]:
    """Shapes without memory that cover 95 % of pods, and their parts."""
    counts = Counter(shape._replace(memory=0) for shape in pods)
    ordered = sorted(counts, key=lambda shape: (-counts[shape], shape))
    sums = np.cumsum([counts[shape] for shape in ordered])
    kept = int(np.searchsorted(sums, _COVERED * len(pods))) + 1
    share = np.array([counts[shape] for shape in ordered[:kept]], float)
    return ordered[:kept], share / share.sum()
