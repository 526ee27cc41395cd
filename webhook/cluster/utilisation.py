"""What GPU metrics say about each node: idle GPUs, mean utilisation, temperature, sickness. Smoothed over a window.

One poll of a source is a round: `add` for every number read, then `commit`; or `discard` where it failed half-way.

    nothing -- commit --> measured -- `staleAfter` without a sample --> gone
                            |    ^
                            +----+  commit

A GPU is idle while utilisation and memory stayed below their limits at every sample of the window: the highest value of
each of 16 stretches of time is kept, so a pause between two batches does not look idle, at 32 bytes a GPU. The mean
utilisation is weighted exponentially, with the window as its time constant.

A GPU that is split into MIG instances is counted as its instances; its temperature and its sickness are theirs.
Nothing here is needed to admit a pod: where metrics are missing or stale, `status` says so and nodes are ranked by
allocation alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.gpu_rows import MOST_GPUS, RANGES, GpuRows, Reading, Sample

__all__ = ["UNKNOWN", "GpuMetricsSettings", "NodeUse", "Reading", "Sample", "Status", "Utilisation", "idle_gpus"]

_BUCKETS = 16
OFF = "GPU metrics are off"
NONE_YET = "no GPU metrics yet"
STALE = "GPU metrics are stale"


class NodeUse(NamedTuple):
    """The GPUs of one node, as far as they were measured."""

    measured: int
    idle: int
    """Of the measured ones, allocated or not."""
    utilisation: float
    """Mean, 0 to 1; NaN where nothing was measured."""
    hottest: float
    """Degrees Celsius; NaN where not known."""
    hot: int
    sick: int
    avoid: int
    """Hot or sick GPUs, as far as the policy avoids them."""


UNKNOWN = NodeUse(0, 0, float("nan"), float("nan"), 0, 0, 0)


class Status(NamedTuple):
    """`reason` is a constant phrase, "" where the metrics are fresh; `age` of the newest sample in seconds."""

    fresh: bool
    reason: str
    age: float | None


def idle_gpus(use: NodeUse, total: float, free: float) -> float:
    """Idle GPUs of a node with `total` allocatable ones of which `free` are not allocated.

    What was not measured and is not allocated counts as idle.
    """
    return min(total, use.idle + max(0.0, min(free, total - use.measured)))


class Utilisation:
    """All GPUs. Times are seconds of one clock that does not go back."""

    def __init__(self, settings: GpuMetricsSettings, most: int = MOST_GPUS) -> None:
        self._settings = settings
        self._rows = GpuRows(_BUCKETS, most)
        self._bucket = 0
        self._newest: float | None = None
        self._table = np.empty((0, len(UNKNOWN)), np.float32)
        self._reported = self._table
        self._gone: list[str] = []
        self.ignored: Counter[str] = Counter()
        """Numbers that were not used, by a constant reason."""

    @property
    def gpus(self) -> int:
        """GPUs and MIG instances that are known now."""
        return self._rows.count

    def configure(self, settings: GpuMetricsSettings) -> None:
        """The settings of a new policy. Another source forgets everything, another window the history."""
        if settings.source != self._settings.source:
            self._forget(np.flatnonzero(self._rows.node[: self._rows.used] >= 0))
            self._newest = None
            self._table = self._aggregate(np.inf)
        if settings.window != self._settings.window:
            self._rows.utilisation[:] = self._rows.memory[:] = 0
            self._bucket = 0
        self._settings = settings

    def add(self, node: str, gpu: str, reading: Reading, value: float, instance: str = "") -> None:
        """One number of the round. Of two for the same GPU the busier one counts."""
        low, high = RANGES[reading]
        if not low <= value <= high:
            self.ignored["not a number" if value != value else "out of range"] += 1  # noqa: PLR0124
            return
        row = self._rows.row(node, gpu, instance)
        if row < 0:
            self.ignored["too many GPUs"] += 1
            return
        cell = self._rows.cells[reading]
        before = cell[row]
        if before == before:  # noqa: PLR0124 - not NaN
            self.ignored["duplicate"] += 1
            if (value >= before) == (reading is Reading.MEMORY_FREE):
                return
        cell[row] = value

    def discard(self) -> None:
        """Forget the round."""
        self._rows.fresh[:, : self._rows.used] = np.nan

    def commit(self, now: float) -> None:
        """The round is complete."""
        rows, n = self._rows, self._rows.used
        fresh, parent = rows.fresh[:, :n], rows.parent[:n]
        instance = parent >= 0
        heard = ~np.isnan(fresh).all(axis=0)
        rows.heard[:n][heard] = now
        parents = parent[heard & instance]
        rows.heard[parents] = rows.split[parents] = now
        rows.temperature[:n][heard] = fresh[Reading.TEMPERATURE][heard]
        rows.sick[:n][heard] = fresh[Reading.SICK][heard] > 0

        engine = np.minimum(fresh[Reading.ENGINE], 1) * 100
        percent = fresh[Reading.UTILISATION]
        percent = np.where(instance | np.isnan(percent), engine, percent)
        used, total = fresh[Reading.MEMORY_USED], fresh[Reading.MEMORY_USED] + fresh[Reading.MEMORY_FREE]
        memory = np.divide(used * 100, total, out=np.zeros_like(used), where=total > 0)
        seen = ~np.isnan(percent)
        if seen.any():
            self._advance(now)
            self._newest = now
        at = self._bucket % _BUCKETS
        for history, value in ((rows.utilisation, percent), (rows.memory, memory)):
            np.maximum(history[at, :n], value, out=history[at, :n], where=seen, casting="unsafe")
        keep = np.exp((rows.measured[:n] - now) / self._settings.window).astype(np.float32)
        np.copyto(rows.average[:n], rows.average[:n] * keep + percent * (1 - keep), where=seen)
        rows.measured[:n][seen] = now
        self.discard()
        self.refresh(now)

    def observe(self, samples: Iterable[Sample], now: float) -> None:
        """A whole round at once."""
        for sample in samples:
            self.add(*sample)
        self.commit(now)

    def refresh(self, now: float) -> None:
        """Let time pass: samples grow stale also while no poll succeeds."""
        self._advance(now)
        rows, oldest = self._rows, now - self._settings.stale_after
        self._forget(np.flatnonzero((rows.node[: rows.used] >= 0) & (rows.heard[: rows.used] < oldest)))
        self._table = self._aggregate(oldest)

    def node(self, name: str) -> NodeUse:
        """What is known of a node as of the last `commit` or `refresh`."""
        at = self._rows.nodes.get(name)
        return UNKNOWN if at is None or at >= len(self._table) else _use(self._table[at].tolist())

    def changes(self) -> list[tuple[str, NodeUse]]:
        """The nodes whose numbers are not what they were at the last call, UNKNOWN for those that are gone."""
        names = self._rows.node_names
        changed = [(name, UNKNOWN) for name in self._gone]
        self._gone.clear()
        reported = np.full_like(self._table, UNKNOWN)
        reported[: len(self._reported)] = self._reported
        same = (reported == self._table) | (np.isnan(reported) & np.isnan(self._table))
        for at in np.flatnonzero(~same.all(axis=1)).tolist():
            changed.append((names[at], _use(self._table[at].tolist())))
        self._reported = self._table.copy()
        return changed

    def status(self, now: float) -> Status:
        """Whether there are samples that may be ranked by, and if not, why."""
        if self._settings.source == "off":
            return Status(False, OFF, None)
        if self._newest is None:
            return Status(False, NONE_YET, None)
        age = now - self._newest
        return Status(True, "", age) if age <= self._settings.stale_after else Status(False, STALE, age)

    def _forget(self, rows: NDArray[np.intp]) -> None:
        for at in self._rows.release(rows.tolist()):
            if at < len(self._reported) and not np.array_equal(self._reported[at], UNKNOWN, equal_nan=True):
                self._gone.append(self._rows.node_names[at])
                self._reported[at] = UNKNOWN

    def _advance(self, now: float) -> None:
        """Empty the stretches of time that have passed since. One more than the window has: it is covered whole."""
        bucket = int(now // (self._settings.window / (_BUCKETS - 1)))
        for passed in range(max(self._bucket + 1, bucket - _BUCKETS + 1), bucket + 1):
            self._rows.utilisation[passed % _BUCKETS] = self._rows.memory[passed % _BUCKETS] = 0
        self._bucket = bucket

    def _aggregate(self, oldest: float) -> NDArray[np.float32]:
        rows, n, settings = self._rows, self._rows.used, self._settings
        count = len(rows.node_names)
        leaf = np.flatnonzero((rows.heard[:n] >= oldest) & (rows.split[:n] < oldest))
        whole = np.where(rows.parent[leaf] >= 0, rows.parent[leaf], leaf)
        temperature = np.fmax(rows.temperature[leaf], rows.temperature[whole])
        hot = temperature >= settings.hot.temperature
        sick = rows.sick[leaf] | rows.sick[whole]  # a GPU that is lost has no utilisation any more, but an Xid
        measured = rows.measured[leaf] >= oldest
        idle = measured & (rows.utilisation[:, leaf].max(axis=0) < settings.idle.utilisation)
        idle &= rows.memory[:, leaf].max(axis=0) < settings.idle.memory
        avoid = (hot & settings.hot.avoid) | (sick & settings.sick.avoid)

        table = np.full((count, len(UNKNOWN)), UNKNOWN, np.float32)
        node = rows.node[leaf]
        for column, which in ((0, measured), (1, idle), (4, hot), (5, sick), (6, avoid)):
            table[:, column] = np.bincount(node[which], minlength=count)
        total = np.bincount(node[measured], weights=rows.average[leaf][measured], minlength=count)
        some = table[:, 0] > 0
        table[some, 2] = np.round(total[some] / table[some, 0]) / 100
        np.fmax.at(table[:, 3], node, temperature)
        return table


def _use(row: list[float]) -> NodeUse:
    measured, idle, utilisation, hottest, hot, sick, avoid = row
    return NodeUse(int(measured), int(idle), round(utilisation, 2), hottest, int(hot), int(sick), int(avoid))
