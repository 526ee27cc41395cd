"""The published policies that the benchmark is checked against: random, best-fit and FGD.

They know each device, and choose node and device themselves, as the authors' scheduler does (USENIX ATC'23,
github.com/hkust-adsl/kubernetes-scheduler-simulator). Among equal nodes best-fit and FGD take the first by name.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.simulator import Fleet
from bench.traces import MILLI, Shape

_CPU, _GPUS = 128_000, 8 * MILLI
"""CPU and GPUs of the largest node, in thousandths, by which best-fit divides."""
_COVERED = 0.95
"""FGD looks at the most frequent shapes that together make up this share of all pods."""


class Pick(NamedTuple):
    """Where a pod is bound."""

    row: int
    device: int | None
    """The device for a part of a GPU; None: the fullest device that fits."""


class Chooser(Protocol):
    """A policy that chooses node and device when a pod is bound."""

    def pick(self, shape: Shape, number: int) -> Pick | None:
        """Choose a node and a device. None if the pod fits nowhere. `number`: the number of the shape."""

    def changed(self, row: int, pod: int, number: int | None) -> None:
        """A pod of shape `number` was bound to the node of this row, or ended there (None). Does nothing unless overridden."""


class Random(Chooser):
    """A random node that fits, and a random device that fits."""

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


class BestFit(Chooser):
    """The fullest node that fits: the one with the smallest ½ free CPU / 128 + ½ free GPUs / 8."""

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


class Fragmentation(Chooser):
    """FGD: the node on which the free GPUs that frequent shapes cannot use grow least."""

    def __init__(self, fleet: Fleet, pods: Sequence[Shape]) -> None:
        self.fleet = fleet
        popular, self.share = _popular(pods)
        self.need = np.array([[shape.cpu, shape.gpus, shape.milli] for shape in popular], np.int64).T
        self.reach = np.array([fleet.allowed(shape.models) for shape in popular]).T
        self.log: list[int] = []
        self.unusable = self._unusable_gpus(fleet.cpu, fleet.devices, self.reach)
        self.scores: dict[int, tuple[int, NDArray[np.int64], NDArray[np.intp]]] = {}

    def pick(self, shape: Shape, number: int) -> Pick | None:
        fleet = self.fleet
        rows = np.flatnonzero(fleet.feasible(shape))
        if not len(rows):
            return None
        score, device = self._scores(shape, number)
        known = score[rows]
        best = rows[known == known.max()]
        row = int(best[fleet.by_name[best].argmin()])
        return Pick(row, int(device[row]) if shape.gpus and not shape.whole else None)

    def changed(self, row: int, pod: int, number: int | None) -> None:
        self.log.append(row)
        self.unusable[[row]] = self._unusable_gpus(self.fleet.cpu[[row]], self.fleet.devices[[row]], self.reach[[row]])

    def _scores(self, shape: Shape, number: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Score and device of each row. Only rows that changed since the last call for this shape are computed again."""
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
            unusable = self._unusable_gpus(cpu, _without(devices, shape.gpus), reach)
            return _score(self.unusable[rows] - unusable), np.zeros(len(rows), np.intp)
        best = np.full(len(rows), -1, np.int64)
        device = np.zeros(len(rows), np.intp)
        for index in range(devices.shape[1]):
            fits = np.flatnonzero(devices[:, index] >= shape.milli)
            if len(fits):
                after = devices[fits]
                after[:, index] -= shape.milli
                score = _score(self.unusable[rows[fits]] - self._unusable_gpus(cpu[fits], after, reach[fits]))
                better = score > best[fits]
                best[fits[better]], device[fits[better]] = score[better], index
        return best, device

    def _unusable_gpus(
        self, cpu: NDArray[np.int64], devices: NDArray[np.int64], reach: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Free thousandths of each node that a frequent shape cannot use, on average over these shapes."""
        need_cpu, need_gpus, need_milli = self.need
        total = devices.sum(axis=1)
        enough = devices[:, :, None] >= need_milli
        fits = (cpu[:, None] >= need_cpu) & (enough.sum(axis=1) >= need_gpus) & (need_gpus > 0) & reach
        useless = total[:, None] - np.einsum("rd,rdk->rk", devices, enough)
        expected: NDArray[np.float64] = np.where(fits, useless, total[:, None]) @ self.share
        return expected


def _without(devices: NDArray[np.int64], gpus: int) -> NDArray[np.int64]:
    """The devices of each row after a pod has taken the first `gpus` that are free as a whole."""
    if not gpus:
        return devices
    free = devices == MILLI
    return np.where(free & (free.cumsum(axis=1) <= gpus), 0, devices)


def _score(fall: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers of 0 to 100, as in the authors' scheduler."""
    return (100 / (1 + np.exp(-np.clip(fall / MILLI, -50, 50)))).astype(np.int64)


def _popular(pods: Sequence[Shape]) -> tuple[list[Shape], NDArray[np.float64]]:
    """The most frequent shapes, without memory, that make up 95 % of all pods, and the share of each."""
    counts = Counter(shape._replace(memory=0) for shape in pods)
    ordered = sorted(counts, key=lambda shape: (-counts[shape], shape))
    sums = np.cumsum([counts[shape] for shape in ordered])
    kept = int(np.searchsorted(sums, _COVERED * len(pods))) + 1
    share = np.array([counts[shape] for shape in ordered[:kept]], float)
    return ordered[:kept], share / share.sum()
