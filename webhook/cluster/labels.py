"""The labels of all nodes, and arrays of the keys that pods select by.

The labels of a node are two tuples, keys and values: a dict would take four times the memory. The array of a key is
built when a pod selects by it. The number of these arrays is bounded, whatever nodes and tenants write.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from sys import intern

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node_table import longer

_MAX_COLUMNS = 512
"""More than nodes have keys: to build a column takes 10 ms at 20,000 nodes. 40 MB there if pods select by so many."""


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

    def keys(self) -> Iterable[str]:
        """The label keys of all nodes."""
        return self._nodes_with.keys()

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
