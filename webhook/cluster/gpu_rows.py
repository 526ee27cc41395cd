"""The GPUs as numpy arrays, one row per GPU or MIG instance, and the registry of rows and nodes.

Bounded: so many rows in all and per node, and a row costs about 200 bytes. Names come from outside (metrics): they are
only ever compared, never parsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_GPUS = 500_000
MOST_PER_NODE = 256
"""16 GPUs of 7 MIG instances, their parents, and room."""
_FIRST_SIZE = 64
_NEVER = -np.inf


class Reading(IntEnum):
    """What a number says about a GPU."""

    UTILISATION = 0
    """Percent."""
    ENGINE = 1
    """Ratio of time that the engine is active: the utilisation of a MIG instance."""
    MEMORY_USED = 2
    """MiB."""
    MEMORY_FREE = 3
    """MiB."""
    TEMPERATURE = 4
    """Degrees Celsius."""
    SICK = 5
    """1 where the GPU needs a reset or a repair, else 0."""


RANGES = ((0.0, 100.0), (0.0, 1.01), (0.0, 2.0**30), (0.0, 2.0**30), (-50.0, 200.0), (0.0, 1.0))
"""What is outside is no measurement: DCGM marks what it does not know by numbers from 2**31 - 16 and 2**47 upwards."""


class Sample(NamedTuple):
    """One number about one GPU. `gpu`: unique on its node; `instance`: of MIG, else ""."""

    node: str
    gpu: str
    reading: Reading
    value: float
    instance: str = ""


class GpuRows:
    """Rows 0 to `used` - 1 are in use or free to be used again. Arrays are longer; nobody keeps one across calls."""

    def __init__(self, buckets: int, most: int = MOST_GPUS) -> None:
        self.used = 0
        self.nodes: dict[str, int] = {}
        """Index of a node, by name. An index is used again when the node's last row is gone."""
        self.node_names: list[str] = []
        self._most = most
        self._node_rows: list[int] = []
        self._free_nodes: list[int] = []
        self._row_of: dict[int, int] = {}
        """By hash of node, GPU and instance: 64 bits with a random key, so that two GPUs meet in one row about once in
        10**8 clusters of 500,000 GPUs. The names themselves would cost a few hundred bytes a GPU."""
        self._free: list[int] = []
        size = _FIRST_SIZE
        self.key: NDArray[np.int64] = np.zeros(size, np.int64)
        self.node: NDArray[np.int32] = np.full(size, -1, np.int32)
        """-1: the row is free."""
        self.parent: NDArray[np.int32] = np.full(size, -1, np.int32)
        """Of a MIG instance: the row of its GPU; -1: a whole GPU."""
        self.heard = np.full(size, _NEVER)
        """When anything was read last, in seconds."""
        self.measured = np.full(size, _NEVER)
        """When the utilisation was read last."""
        self.split = np.full(size, _NEVER)
        """When the GPU had MIG instances last."""
        self.average = np.zeros(size, np.float32)
        self.temperature = np.full(size, np.nan, np.float32)
        self.sick = np.zeros(size, np.bool_)
        self.utilisation = np.zeros((buckets, size), np.uint8)
        """The highest whole percent per bucket of time; 0 where nothing was read."""
        self.memory = np.zeros((buckets, size), np.uint8)
        self.fresh: NDArray[np.float32] = np.full((len(Reading), size), np.nan, np.float32)
        """What was read in the round that is going on; NaN: nothing."""
        self.cells: list[memoryview[float]] = []
        """`fresh`, one view per reading: an item is read and written twice as fast as through numpy."""
        self._view()

    @property
    def count(self) -> int:
        """Rows in use."""
        return len(self._row_of)

    def row(self, node: str, gpu: str, instance: str = "") -> int:
        """The row of a GPU or MIG instance, made if there is none; -1 where there are too many."""
        at = self.nodes.get(node, -1)
        if at >= 0:
            row = self._row_of.get(hash((at, gpu, instance)))
            if row is not None:
                return row
            if self._node_rows[at] >= MOST_PER_NODE:
                return -1
        if len(self._row_of) >= self._most:
            return -1
        parent = self.row(node, gpu) if instance else -1
        if instance and parent < 0:
            return -1
        at = self._node(node)
        key = hash((at, gpu, instance))
        row = self._next()
        self._row_of[key] = row
        self._node_rows[at] += 1
        self.key[row], self.node[row], self.parent[row] = key, at, parent
        return row

    def release(self, rows: Iterable[int]) -> list[int]:
        """Free these rows; the indices of the nodes that have none left, which are free to be used again as well."""
        emptied = []
        for row in rows:
            del self._row_of[int(self.key[row])]
            at = int(self.node[row])
            self._clear(row)
            self._free.append(row)
            self._node_rows[at] -= 1
            if not self._node_rows[at]:
                del self.nodes[self.node_names[at]]
                self._free_nodes.append(at)
                emptied.append(at)
        return emptied

    def _clear(self, row: int) -> None:
        self.node[row] = self.parent[row] = -1
        self.heard[row] = self.measured[row] = self.split[row] = _NEVER
        self.average[row], self.temperature[row], self.sick[row] = 0, np.nan, False
        self.utilisation[:, row] = self.memory[:, row] = 0
        self.fresh[:, row] = np.nan

    def _node(self, name: str) -> int:
        at = self.nodes.get(name)
        if at is None:
            if self._free_nodes:
                at = self._free_nodes.pop()
                self.node_names[at] = name
            else:
                at = len(self.node_names)
                self.node_names.append(name)
                self._node_rows.append(0)
            self.nodes[name] = at
        return at

    def _next(self) -> int:
        if self._free:
            return self._free.pop()
        if self.used == len(self.key):
            self._grow()
        self.used += 1
        return self.used - 1

    def _grow(self) -> None:
        self.cells.clear()
        self.key = _doubled(self.key, 0)
        self.node = _doubled(self.node, -1)
        self.parent = _doubled(self.parent, -1)
        self.heard = _doubled(self.heard, _NEVER)
        self.measured = _doubled(self.measured, _NEVER)
        self.split = _doubled(self.split, _NEVER)
        self.average = _doubled(self.average, 0)
        self.temperature = _doubled(self.temperature, np.nan)
        self.sick = _doubled(self.sick, False)
        self.utilisation = _doubled(self.utilisation, 0)
        self.memory = _doubled(self.memory, 0)
        self.fresh = _doubled(self.fresh, np.nan)
        self._view()

    def _view(self) -> None:
        self.cells = [memoryview(reading) for reading in self.fresh]


def _doubled(array: NDArray[Any], fill: float) -> NDArray[Any]:
    """Twice as long, the new half filled with `fill`; the last axis is the rows."""
    return np.concatenate([array, np.full_like(array, fill)], axis=-1)
