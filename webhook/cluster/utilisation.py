"""GPU metrics by node: idle GPUs, mean utilisation, temperature and sick GPUs, smoothed over a window.

One poll of a source is a round: `add` for each number, then `commit`, or `discard` if the poll failed half-way.

    nothing -- commit --> measured -- `staleAfter` without a sample --> gone
                            |    ^
                            +----+  commit

A GPU is idle if utilisation and memory stayed below their limits in every sample of the window: the time of the last
sample that did not is kept. So a pause between two batches does not look idle. The mean utilisation is weighted
exponentially, with the window as its time constant.

A GPU that is split into MIG instances is counted as its instances; they have its temperature and its Xid errors. No pod
needs metrics to be admitted: if they are missing or stale, `status` says so, and nodes are ranked by allocation alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.gpu_rows import MAX_GPUS, RANGES, GpuRows, Reading, Sample
from webhook.framework.cluster_view import MetricsStatus

__all__ = ["UNKNOWN", "GpuMetricsSettings", "NodeUse", "Reading", "Sample", "Utilisation"]

NONE_YET = "no GPU metrics yet"
STALE = "GPU metrics are stale"


class NodeUse(NamedTuple):
    """The metrics of the GPUs of one node."""

    measured: int
    idle: int
    """Idle ones among the measured GPUs, allocated or not."""
    utilisation: float
    """Mean, 0 to 1; NaN if no GPU is measured."""
    hottest: float
    """Degrees Celsius; NaN if not known."""
    hot: int
    sick: int
    avoid: int
    """GPUs to avoid by the policy because they are hot or sick; without those that count as busy."""
    busy: int = 0
    """Measured GPUs that are not idle; 0 if the policy does not avoid busy GPUs."""
    known: int = 0
    """GPUs with any metric."""


UNKNOWN = NodeUse(0, 0, float("nan"), float("nan"), 0, 0, 0)


class Utilisation:
    """The metrics of all GPUs. Times are seconds of one clock that never goes back."""

    def __init__(self, settings: GpuMetricsSettings, max_gpus: int = MAX_GPUS) -> None:
        self._settings = settings
        self._rows = GpuRows(max_gpus)
        self._newest: float | None = None
        self._table = np.empty((0, len(UNKNOWN)), np.float32)
        self._reported = self._table
        self._gone: list[str] = []
        self.ignored: Counter[str] = Counter()
        """Numbers that were not used, by a constant reason."""

    @property
    def gpus(self) -> int:
        """Number of GPUs and MIG instances with metrics."""
        return self._rows.count

    def configure(self, settings: GpuMetricsSettings) -> None:
        """Apply the settings of a new policy. With another source all metrics are forgotten."""
        if settings.source != self._settings.source:
            self._forget(np.flatnonzero(self._rows.column("node") >= 0))
            self._newest = None
            self._table = self._aggregate(np.inf)
        self._settings = settings

    def add(self, node: str, gpu: str, reading: Reading, value: float, instance: str = "") -> None:
        """Add a number to the round. Of two for the same GPU the busier one counts."""
        low, high = RANGES[reading]
        if not low <= value <= high:
            # NaN alone differs from itself; `isnan` would raise for an integer that no float can hold.
            self.ignored["not a number" if value != value else "out of range"] += 1  # noqa: PLR0124
            return
        row = self._rows.row(node, gpu, instance)
        if row < 0:
            self.ignored["too many GPUs"] += 1
            return
        fresh = self._rows.table["fresh"][row]
        before = fresh[reading]
        if not isnan(before):
            self.ignored["duplicate"] += 1
            if (value >= before) == (reading is Reading.MEMORY_FREE):
                return
        fresh[reading] = value

    def discard(self) -> None:
        """Forget the numbers of the round."""
        self._rows.table["fresh"] = np.nan

    def commit(self, now: float) -> None:
        """Complete the round."""
        column = self._rows.column
        fresh, parent = column("fresh").T, column("parent")
        instance = parent >= 0
        heard = ~np.isnan(fresh).all(axis=0)
        column("heard")[heard] = now
        parents = parent[heard & instance]
        column("heard")[parents] = column("split")[parents] = now
        column("temperature")[heard] = fresh[Reading.TEMPERATURE][heard]
        column("sick")[heard] = fresh[Reading.SICK][heard] > 0

        engine = np.minimum(fresh[Reading.ENGINE], 1) * 100
        percent = fresh[Reading.UTILISATION]
        percent = np.where(instance | np.isnan(percent), engine, percent)
        used, total = fresh[Reading.MEMORY_USED], fresh[Reading.MEMORY_USED] + fresh[Reading.MEMORY_FREE]
        memory = np.divide(used * 100, total, out=np.zeros_like(used), where=total > 0)
        seen = ~np.isnan(percent)
        if seen.any():
            self._newest = now
        limits = self._settings.idle
        column("used")[seen & ((percent >= limits.utilisation) | (memory >= limits.memory))] = now
        keep = np.exp((column("measured") - now) / self._settings.window).astype(np.float32)
        average = column("average")
        np.copyto(average, average * keep + percent * (1 - keep), where=seen)
        column("measured")[seen] = now
        self.discard()
        self.refresh(now)

    def observe(self, samples: Iterable[Sample], now: float) -> None:
        """Add and complete a whole round."""
        for sample in samples:
            self.add(*sample)
        self.commit(now)

    def refresh(self, now: float) -> None:
        """Drop what is stale at the time `now`; called while polls fail, too."""
        column, oldest = self._rows.column, now - self._settings.stale_after
        self._forget(np.flatnonzero((column("node") >= 0) & (column("heard") < oldest)))
        self._table = self._aggregate(now)

    def node(self, name: str) -> NodeUse:
        """The metrics of a node as of the last `commit` or `refresh`."""
        at = self._rows.nodes.get(name)
        return UNKNOWN if at is None or at >= len(self._table) else _use(self._table[at].tolist())

    def changes(self) -> list[tuple[str, NodeUse]]:
        """The nodes whose metrics changed since the last call; UNKNOWN for those without metrics now."""
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

    def status(self, now: float) -> MetricsStatus:
        """Whether there are samples to rank by, and if not, why."""
        source = self._settings.source
        if source == "off":
            return MetricsStatus()
        if self._newest is None:
            return MetricsStatus(source, NONE_YET)
        age = now - self._newest
        return MetricsStatus(source, "" if age <= self._settings.stale_after else STALE, age)

    def _forget(self, rows: NDArray[np.intp]) -> None:
        for at in self._rows.release(rows.tolist()):
            if at < len(self._reported) and not np.array_equal(self._reported[at], UNKNOWN, equal_nan=True):
                self._gone.append(self._rows.node_names[at])
                self._reported[at] = UNKNOWN

    def _aggregate(self, now: float) -> NDArray[np.float32]:
        column, settings, count = self._rows.column, self._settings, len(self._rows.node_names)
        oldest = now - settings.stale_after
        leaf = np.flatnonzero((column("heard") >= oldest) & (column("split") < oldest))
        gpus, parent = self._rows.table[leaf], column("parent")[leaf]
        whole = self._rows.table[np.where(parent >= 0, parent, leaf)]
        temperature = np.fmax(gpus["temperature"], whole["temperature"])
        hot = temperature >= settings.hot.temperature
        sick = gpus["sick"] | whole["sick"]  # a GPU that is lost reports an Xid but no utilisation
        measured = gpus["measured"] >= oldest
        idle = measured & (gpus["used"] < now - settings.window)
        busy = measured & ~idle & settings.busy.avoid
        avoid = ((hot & settings.hot.avoid) | (sick & settings.sick.avoid)) & ~busy

        table = np.full((count, len(UNKNOWN)), UNKNOWN, np.float32)
        node = gpus["node"]
        for place, which in ((0, measured), (1, idle), (4, hot), (5, sick), (6, avoid), (7, busy)):
            table[:, place] = np.bincount(node[which], minlength=count)
        table[:, 8] = np.bincount(node, minlength=count)
        total = np.bincount(node[measured], weights=gpus["average"][measured], minlength=count)
        some = table[:, 0] > 0
        table[some, 2] = np.round(total[some] / table[some, 0]) / 100
        np.fmax.at(table[:, 3], node, temperature)
        return table


def _use(row: list[float]) -> NodeUse:
    measured, idle, utilisation, hottest, *counts = row
    return NodeUse(int(measured), int(idle), round(utilisation, 2), hottest, *map(int, counts))
