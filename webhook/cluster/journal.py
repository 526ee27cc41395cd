"""Which rows changed, in order, so that a cache computes only those again."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

_REMEMBERED = 32768


class Journal:
    """A bounded log of row numbers. A reader keeps the `position` up to which it has read."""

    __slots__ = ("_rows", "_start", "position")

    def __init__(self) -> None:
        self._rows = array("i")
        self._start = 0
        self.position = 0

    def add(self, row: int) -> None:
        rows = self._rows
        rows.append(row)
        self.position += 1
        if len(rows) >= 2 * _REMEMBERED:
            del rows[:_REMEMBERED]
            self._start += _REMEMBERED

    def since(self, position: int) -> array[int] | None:
        """The rows that changed after `position`, with repetitions; None where that is no longer remembered."""
        return None if position < self._start else self._rows[position - self._start :]


def distinct(rows: array[int]) -> NDArray[np.intp]:
    """Each of `rows` once, in rising order."""
    return np.array(sorted(set(rows)), np.intp)
