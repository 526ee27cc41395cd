"""The GPUs as numpy arrays, one row per GPU or MIG instance, and the registry of rows and nodes.

Bounded: so many rows in all and per node, and a row costs about 400 bytes. Names come from outside (metrics): they are
only ever compared, never parsed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_GPUS = 500_000
MAX_PER_NODE = 256
"""16 GPUs of 7 MIG instances, their parents, and room."""
BUCKETS: Final = 16
Key = tuple[str, str, str]
"""Node, GPU and instance."""
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
        ("utilisation", np.uint8, BUCKETS),
        ("memory", np.uint8, BUCKETS),
        ("fresh", np.float32, len(Reading)),
    ]
)
"""node: index of the node, -1 where the row is free. parent: of a MIG instance the row of its GPU, else -1. heard, measured:
when anything was read last, and the utilisation, in seconds. split: when the GPU had MIG instances last. utilisation, memory:
the highest whole percent per bucket of time, 0 where nothing was read. fresh: what was read in the round that is going on;
NaN where nothing was."""
_NEW: Final = np.array((-1, -1, _NEVER, _NEVER, _NEVER, 0, np.nan, False, 0, 0, np.nan), _ROW)


class GpuRows:
    """Rows 0 to `used` - 1 are in use or free to be used again. The array is longer; nobody keeps it across calls."""

    def __init__(self, max_gpus: int = MAX_GPUS) -> None:
        self.used = 0
        self.table: NDArray[np.void] = np.full(_FIRST_SIZE, _NEW)
        self.nodes: dict[str, int] = {}
        """Index of a node, by name. An index is used again when the node's last row is gone."""
        self.node_names: list[str] = []
        self._max_gpus = max_gpus
        self._rows_on: list[int] = []
        self._free_nodes: list[int] = []
        self._row_of: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._free: list[int] = []

    @property
    def count(self) -> int:
        """Rows in use."""
        return len(self._row_of)

    def column(self, name: str) -> NDArray[Any]:
        """One column of the rows in use: see `_ROW`."""
        values: NDArray[Any] = self.table[name][: self.used]
        return values

    def row(self, node: str, gpu: str, instance: str = "") -> int:
        """The row of a GPU or MIG instance, made if there is none; -1 where there are too many."""
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
        at, row = self._node(node), self._next()
        self._row_of[key], self._keys[row] = row, key
        self._rows_on[at] += 1
        self.table["node"][row], self.table["parent"][row] = at, parent
        return row

    def release(self, rows: Iterable[int]) -> list[int]:
        """Free these rows; the indices of the nodes that have none left, which are free to be used again as well."""
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

    def _node(self, name: str) -> int:
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

    def _next(self) -> int:
        if self._free:
            return self._free.pop()
        if self.used == len(self.table):
            self.table = np.concatenate([self.table, np.full(self.used, _NEW)])
        self.used += 1
        self._keys.append(("", "", ""))
        return self.used - 1
