"""The labels of all nodes, and columns over them for the keys that pods select by.

Labels are kept per node as two tuples (keys, shared between nodes, and values). A column over one key is built when
somebody selects by it: what it costs in memory is bounded by how many are kept, not by what nodes or tenants write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

_COLUMNS = 128
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_STRINGS = 1 << 20


class LabelColumn:
    """One label key over all rows. `codes[row]` is an index into `values`, or 0 where the node has no such label."""

    __slots__ = ("_numbers", "codes", "ids", "values")

    def __init__(self, size: int) -> None:
        self.codes: NDArray[np.int32] = np.zeros(size, np.int32)
        self.values: list[str] = [""]
        self.ids: dict[str, int] = {}
        self._numbers: NDArray[np.float64] = np.full(1, np.nan)

    def numbers(self) -> NDArray[np.float64]:
        """`values` as numbers, NaN where one is none (labels.Requirement, Gt and Lt): exact up to 2**53."""
        known = len(self._numbers)
        if known < len(self.values):
            more = [float(v) if _INTEGER.fullmatch(v) else np.nan for v in self.values[known:]]
            self._numbers = np.concatenate([self._numbers, more])
        return self._numbers

    def put(self, row: int, value: str | None) -> None:
        if row >= len(self.codes):
            self.padded(2 * row + 1)
        if value is None:
            self.codes[row] = 0
            return
        code = self.ids.get(value)
        if code is None:
            code = self.ids[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = code

    def padded(self, size: int) -> NDArray[np.int32]:
        """The codes of at least `size` rows."""
        if size > len(self.codes):
            self.codes = np.concatenate([self.codes, np.zeros(size - len(self.codes), np.int32)])
        return self.codes


class Labels:
    """Labels by row."""

    def __init__(self) -> None:
        self._keys: list[tuple[str, ...]] = []
        self._values: list[tuple[str, ...]] = []
        self._sets: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._strings: dict[str, str] = {}
        self._nodes_with: dict[str, int] = {}
        self._columns: dict[str, LabelColumn] = {}

    def put(self, row: int, labels: Mapping[str, str]) -> bool:
        """Set the labels of a row. False where nothing changed."""
        while row >= len(self._keys):
            self._keys.append(())
            self._values.append(())
        keys = tuple(sorted(labels))
        values = tuple([labels[key] for key in keys])
        before = self._keys[row]
        if keys == before and values == self._values[row]:
            return False
        for key in before:
            left = self._nodes_with[key] - 1
            if left:
                self._nodes_with[key] = left
            else:
                del self._nodes_with[key]
        for key in keys:
            self._nodes_with[key] = self._nodes_with.get(key, 0) + 1
        self._keys[row] = self._share_keys(keys)
        self._values[row] = tuple([self._share(value) for value in values])
        for key, column in list(self._columns.items()):
            column.put(row, labels.get(key))
            if len(column.values) > 2 * len(self._keys) + _COLUMNS:  # values of nodes long gone
                del self._columns[key]
        return True

    def get(self, row: int) -> Mapping[str, str]:
        """The labels of a row."""
        return dict(zip(self._keys[row], self._values[row], strict=True))

    def keys(self) -> Iterable[str]:
        """The keys that some node has."""
        return self._nodes_with.keys()

    def any_of(self, keys: Iterable[str]) -> bool:
        """Whether some node has one of these labels."""
        return any(key in self._nodes_with for key in keys)

    def column(self, key: str) -> LabelColumn | None:
        """The column of a key, or None where no node has that label. Valid until the next event."""
        column = self._columns.pop(key, None)
        if column is None:
            if key not in self._nodes_with:
                return None
            if len(self._columns) >= _COLUMNS:
                del self._columns[next(iter(self._columns))]  # the one that was asked for longest ago
            column = LabelColumn(len(self._keys))
            for row, keys in enumerate(self._keys):
                if key in keys:
                    column.put(row, self._values[row][keys.index(key)])
        self._columns[key] = column
        return column

    def _share_keys(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        if len(self._sets) > _COLUMNS * 16:
            self._sets.clear()
        return self._sets.setdefault(keys, tuple([self._share(key) for key in keys]))

    def _share(self, text: str) -> str:
        if len(self._strings) > _STRINGS:  # mostly names of nodes long gone; sharing merely starts over
            self._strings.clear()
        return self._strings.setdefault(text, text)
