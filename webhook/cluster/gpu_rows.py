"""The metrics of all GPUs as a numpy table, one row per GPU or MIG instance, and the index of its rows and nodes.

The numbers of rows in all and per node are bounded; a row takes about 400 bytes. Names come from metrics, so from
outside: they are compared, never parsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_GPUS = 500_000
MAX_PER_NODE = 256
"""Twice what 16 GPUs with 7 MIG instances each need: a row for every GPU and every instance."""
Key = tuple[str, str, str]
"""Node, GPU and instance."""
_INITIAL_SIZE = 64
_NEVER = -np.inf


class Reading(IntEnum):
    """What a number measures."""

    UTILISATION = 0
    """Percent."""
    ENGINE = 1
    """Part of the time that the engine is active, 0 to 1: the utilisation of a MIG instance."""
    MEMORY_USED = 2
    """MiB."""
    MEMORY_FREE = 3
    """MiB."""
    TEMPERATURE = 4
    """Degrees Celsius."""
    SICK = 5
    """1 if the GPU needs a reset or a repair, else 0."""


RANGES = ((0.0, 100.0), (0.0, 1.01), (0.0, 2.0**30), (0.0, 2.0**30), (-50.0, 200.0), (0.0, 1.0))
"""Valid values of each reading. DCGM marks unknown values by numbers from 2**31 - 16 and from 2**47 upwards."""


class Sample(NamedTuple):
    """One number about one GPU. `gpu` is unique on its node. `instance` is the MIG instance, or ""."""

    node: str
    gpu: str
    reading: Reading
    value: float
    instance: str = ""


_ROW: Final = np.dtype(
    [
        ("node", np.int32),
        ("parent", np.int32),
        ("heard", np.float64),
        ("measured", np.float64),
        ("split", np.float64),
        ("average", np.float32),
        ("temperature", np.float32),
        ("sick", np.bool_),
        ("used", np.float64),
        ("fresh", np.float32, len(Reading)),
    ]
)
"""node: index of the node; -1 if the row is unused. parent: row of the GPU of a MIG instance, else -1. heard, measured:
time of the last number of any kind, and of the last utilisation, in seconds. split: when the GPU last had MIG instances.
used: time of the last sample by which it was not idle. fresh: numbers of the current
poll; NaN without one."""
_NEW: Final = np.array((-1, -1, _NEVER, _NEVER, _NEVER, 0, np.nan, False, _NEVER, np.nan), _ROW)


class GpuRows:
    """The table. Rows 0 to `used` - 1 are in use or were released. The array grows: do not keep it across calls."""

    def __init__(self, max_gpus: int = MAX_GPUS) -> None:
        self.used = 0
        self.table: NDArray[np.void] = np.full(_INITIAL_SIZE, _NEW)
        self.nodes: dict[str, int] = {}
        """Index of each node, by name. The index of a node without rows is reused."""
        self.node_names: list[str] = []
        self._max_gpus = max_gpus
        self._rows_on: list[int] = []
        self._free_nodes: list[int] = []
        self._row_of: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._free: list[int] = []

    @property
    def count(self) -> int:
        """Number of rows in use."""
        return len(self._row_of)

    def column(self, name: str) -> NDArray[Any]:
        """One column of `_ROW`, for rows 0 to `used` - 1."""
        values: NDArray[Any] = self.table[name][: self.used]
        return values

    def row(self, node: str, gpu: str, instance: str = "") -> int:
        """The row of a GPU or MIG instance, added if it is new; -1 if a limit is reached."""
        key = node, gpu, instance
        row = self._row_of.get(key)
        if row is not None:
            return row
        at = self.nodes.get(node, -1)
        if len(self._row_of) >= self._max_gpus or (at >= 0 and self._rows_on[at] >= MAX_PER_NODE):
            return -1
        parent = self.row(node, gpu) if instance else -1
        if instance and parent < 0:
            return -1
        at, row = self._node_index(node), self._unused_row()
        self._row_of[key], self._keys[row] = row, key
        self._rows_on[at] += 1
        self.table["node"][row], self.table["parent"][row] = at, parent
        return row

    def release(self, rows: Iterable[int]) -> list[int]:
        """Release these rows. Returns the indices of nodes that have no rows left; these are reused as well."""
        emptied = []
        for row in rows:
            key = self._keys[row]
            at = self.nodes[key[0]]
            del self._row_of[key]
            self.table[row] = _NEW
            self._free.append(row)
            self._rows_on[at] -= 1
            if not self._rows_on[at]:
                del self.nodes[key[0]]
                self._free_nodes.append(at)
                emptied.append(at)
        return emptied

    def _node_index(self, name: str) -> int:
        at = self.nodes.get(name)
        if at is None:
            if self._free_nodes:
                at = self._free_nodes.pop()
                self.node_names[at] = name
            else:
                at = len(self.node_names)
                self.node_names.append(name)
                self._rows_on.append(0)
            self.nodes[name] = at
        return at

    def _unused_row(self) -> int:
        if self._free:
            return self._free.pop()
        if self.used == len(self.table):
            self.table = np.concatenate([self.table, np.full(self.used, _NEW)])
        self.used += 1
        self._keys.append(("", "", ""))
        return self.used - 1
