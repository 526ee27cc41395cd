"""The node table: numpy arrays with one row per node, the labels of nodes, and which rows have changed.

Arrays grow by doubling, and rows of deleted nodes are reused. So keep no array and no row across events: read them from
`Columns` in each call.

The labels of a node are two tuples, keys and values: a dict would take four times the memory. The array of a key is
built when a pod selects by it. The number of these arrays is bounded, whatever nodes and tenants write.
"""

from __future__ import annotations

from array import array as packed
from collections import Counter
from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.kube.gpus import SILICON

_KEPT = 32768
"""The log keeps at least the last so many changes."""
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp] | slice
"""Which rows: an array of indices without duplicates, or a slice."""

LAST: Final = 1000.0
"""Subtracted from the score of a node that must rank last: more than scores differ."""
_INITIAL_SIZE = 64
_MAX_COLUMNS = 512
"""More than nodes have keys: to build a column takes 10 ms at 20,000 nodes. 40 MB there if pods select by so many."""


class Journal:
    """A bounded log of changed rows, so that caches update only these. A reader keeps the `position` up to which it has read."""

    __slots__ = ("_rows", "_start", "position")

    def __init__(self) -> None:
        self._rows = packed("i")
        self._start = 0
        self.position = 0

    def add(self, row: int) -> None:
        rows = self._rows
        rows.append(row)
        self.position += 1
        if len(rows) >= 2 * _KEPT:
            del rows[:_KEPT]
            self._start += _KEPT

    def since(self, position: int) -> packed[int] | None:
        """The rows that changed after `position`, with repetitions; None if the log no longer goes back so far."""
        return None if position < self._start else self._rows[position - self._start :]


def distinct(rows: packed[int]) -> NDArray[np.intp]:
    """The rows without repetitions, sorted."""
    return np.array(sorted(set(rows)), np.intp)


class Columns:
    """The columns of the node table.

    A row is `alive` from the first event of its node to the deletion. A node that is not there but has pods has a row
    too, which is not alive.
    """

    def __init__(self) -> None:
        self.changes = Journal()
        """The rows in which anything changed."""
        self.cache: dict[str, Any] = {}
        """For what placement derives from the columns alone and updates by `changes`."""
        self.rows, self.size = 0, _INITIAL_SIZE
        """Rows 0 to `rows` - 1 are in use or were released. The arrays have `size` rows, which are more."""
        self.alive: NDArray[np.bool_] = np.zeros(self.size, bool)
        self.name: list[str] = []
        """By row; "" if the row is not in use."""
        self.status: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """Index into `Nodes.statuses`."""
        self.capacity: dict[str, Integers] = {}
        """Allocatable by resource: "cpu" in thousandths, "memory" and "ephemeral-storage" in bytes, "pods", and each
        extended resource of some node. 0 in dead rows."""
        self.installed: dict[str, Integers] = {}
        """What nodes may offer of extended resources as they are: see `nodes.installed_on`. 0 in dead rows."""
        self.free: dict[str, Integers] = {}
        """Allocatable minus the requests of pods that are bound to the node or have a reservation there. May be negative."""
        self.named: dict[str, Integers] = {}
        """The same of the requests by this name alone, for resources that hand out the same devices: see `couple`."""
        self.devices: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """The state of the devices: its number in the device table; 0 if nobody publishes any."""
        self.pods: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """Pods that are bound to the node or have a reservation there, private ones too."""
        self.roaming: Integers = np.zeros(self.size, np.int64)
        """CPU in thousandths of the pods without GPUs that the scheduler placed there by its own scores (`PodKind.roams`)."""
        self.model: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """The GPU model as an index into `models`; 0 is unknown."""
        self.models: list[str] = [""]
        self.one: NDArray[np.int8] = np.zeros(self.size, np.int8)
        """What one of a GPU resource is whose name does not say it: an index into `gpus.GPU_KINDS`, so 0 for a whole GPU."""
        self.sharing: Floats = np.ones(self.size)
        """Pods that share one GPU, or one slice, by time-slicing or MPS; 1 if it is not shared."""
        self.slices: Floats = np.ones(self.size)
        """Slices of a GPU; 1 if it is not sliced, or if its slices have resource names of their own."""
        self.measured: Floats = np.zeros(self.size)
        """GPUs with a known utilisation; if 0, `idle` and `utilisation` are 0 too."""
        self.idle: Floats = np.zeros(self.size)
        """Idle GPUs among the measured ones, allocated or not."""
        self.avoid: Floats = np.zeros(self.size)
        """GPUs that are hot or sick but not busy, if the policy avoids these."""
        self.busy: Floats = np.zeros(self.size)
        """Busy GPUs, allocated or not."""
        self.known: Floats = np.zeros(self.size)
        """GPUs with any metric."""
        self.heat: Floats = np.zeros(self.size)
        """Degrees Celsius of the hottest GPU, rounded down to steps; 0 if not known."""
        self.utilisation: Floats = np.zeros(self.size)
        """Mean utilisation of the measured GPUs, 0 to 1."""
        self.place, self.order = np.zeros(self.size), np.zeros(self.size)
        """See `siblings.place_of` and `siblings.order_of`: the order of nodes between the siblings."""

    def add_resource(self, resource: str) -> None:
        """Add a resource that no node had so far."""
        self.capacity[resource] = np.zeros(self.size, np.int64)
        self.installed[resource] = np.zeros(self.size, np.int64)
        self.free[resource] = np.zeros(self.size, np.int64)
        if resource in SILICON:
            self.named[resource] = np.zeros(self.size, np.int64)

    def add_free(self, resource: str, row: int, amount: int) -> None:
        """So much more of a resource is free on a row; less, if the amount is negative."""
        if resource in self.named:
            self.named[resource][row] += amount
            self.couple(resource, row)
        else:
            self.free[resource][row] += amount

    def couple(self, resource: str, row: int) -> None:
        """What is free of a resource and of those of the same devices on a row: what one hands out, none of the others has."""
        capacity = {name: int(self.capacity[name][row]) for name in SILICON[resource] if name in self.named}
        most = max(capacity.values())
        sizes = {name: most // amount for name, amount in capacity.items() if amount}
        left = most - sum([size * (capacity[name] - int(self.named[name][row])) for name, size in sizes.items()])
        for name in capacity:
            self.free[name][row] = left // sizes[name] if name in sizes else self.named[name][row]

    def grow(self) -> None:
        """Double the number of rows."""
        self.size *= 2
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                setattr(self, name, longer(array, self.size, 1 if name in ("sharing", "slices") else 0))
        for arrays in (self.capacity, self.installed, self.free, self.named):
            for resource, array in arrays.items():
                arrays[resource] = longer(array, self.size)


def longer(array: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    """The array extended to at least `size` items; new ones are `fill`."""
    more = size - len(array)
    return array if more <= 0 else np.concatenate([array, np.full((more, *array.shape[1:]), fill, array.dtype)])


class LabelColumn:
    """One label key over all rows. `codes[row]` is an index into `values`, or 0 if the node has no such label."""

    def __init__(self, size: int) -> None:
        self.codes: NDArray[np.int32] = np.zeros(size, np.int32)
        self.values: list[str] = [""]
        self.ids: dict[str, int] = {}

    def put(self, row: int, value: str | None) -> None:
        if row >= len(self.codes):
            self.padded(2 * row + 1)
        if value is None:
            self.codes[row] = 0
            return
        code = self.ids.setdefault(value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        self.codes[row] = code

    def padded(self, size: int) -> NDArray[np.int32]:
        """The codes, extended to at least `size` rows."""
        self.codes = longer(self.codes, size)
        return self.codes


class Labels:
    """The labels of each row."""

    def __init__(self) -> None:
        self._labels: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        self._nodes_with: Counter[str] = Counter()
        self._columns: dict[str, LabelColumn] = {}

    def put(self, row: int, labels: Mapping[str, str]) -> bool:
        """Set the labels of a row. Returns whether they changed."""
        while row >= len(self._labels):
            self._labels.append(((), ()))
        keys = tuple([intern(key) for key in sorted(labels)])
        new = keys, tuple([intern(labels[key]) for key in keys])
        before = self._labels[row]
        if new == before:
            return False
        self._labels[row] = new
        self._nodes_with.update(keys)
        for key in before[0]:
            self._nodes_with[key] -= 1
            if not self._nodes_with[key]:
                del self._nodes_with[key]
        for key, column in list(self._columns.items()):
            column.put(row, labels.get(key))
            if len(column.values) > 2 * len(self._labels) + _MAX_COLUMNS:  # most values are of deleted nodes
                del self._columns[key]
        return True

    def get(self, row: int) -> Mapping[str, str]:
        return dict(zip(*self._labels[row], strict=True))

    def value(self, row: int, key: str) -> str:
        """The value of one label; "" if the node does not have it."""
        keys, values = self._labels[row]
        return values[keys.index(key)] if key in keys else ""

    def sets(self, keys: Iterable[str], rows: int) -> tuple[NDArray[np.int64], list[tuple[str, ...]]]:
        """For each of the first `rows` a number, the same where all these labels are the same; and the values of the labels by
        that number, "" for none."""
        columns = [self.column(key) for key in keys]
        group = np.zeros(rows, np.int64)
        for column in columns:
            if column is not None:
                codes = column.padded(rows)[:rows]
                group = np.unique(group * len(column.values) + codes, return_inverse=True)[1]
        first = np.unique(group, return_index=True)[1].tolist()
        each = [["" if c is None else c.values[c.codes[row]] for c in columns] for row in first]
        return group, [tuple(values) for values in each]

    def keys(self) -> Iterable[str]:
        """The label keys of all nodes."""
        return self._nodes_with.keys()

    def is_anywhere(self, key: str) -> bool:
        """Whether some node has this label."""
        return key in self._nodes_with

    def column(self, key: str) -> LabelColumn | None:
        """The column of a key; None if no node has that label. Valid until the next event."""
        column = self._columns.pop(key, None)
        if column is None:
            if key not in self._nodes_with:
                return None
            if len(self._columns) >= _MAX_COLUMNS:
                del self._columns[next(iter(self._columns))]  # the least recently used
            column = LabelColumn(len(self._labels))
            for row, (keys, values) in enumerate(self._labels):
                if key in keys:
                    column.put(row, values[keys.index(key)])
        self._columns[key] = column
        return column
