"""A bounded log of changed rows, so that caches update only these."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

_KEPT = 32768
"""The log keeps at least the last so many changes."""


class Journal:
    """The log. A reader keeps the `position` up to which it has read."""

    __slots__ = ("_rows", "_start", "position")

    def __init__(self) -> None:
        self._rows = array("i")
        self._start = 0
        self.position = 0

    def add(self, row: int) -> None:
        rows = self._rows
        rows.append(row)
        self.position += 1
        if len(rows) >= 2 * _KEPT:
            del rows[:_KEPT]
            self._start += _KEPT

    def since(self, position: int) -> array[int] | None:
        """The rows that changed after `position`, with repetitions; None if the log no longer goes back so far."""
        return None if position < self._start else self._rows[position - self._start :]


def distinct(rows: array[int]) -> NDArray[np.intp]:
    """The rows without repetitions, sorted."""
    return np.array(sorted(set(rows)), np.intp)
