"""Small numbers for values that many rows share."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class Interned(Generic[T]):
    """A number for each value, from 0 upwards. `epoch` rises when the numbers are given out anew."""

    __slots__ = ("epoch", "ids", "values")

    def __init__(self, first: T) -> None:
        self.epoch = 0
        self.values: list[T] = [first]
        self.ids: dict[T, int] = {first: 0}

    def id(self, value: T) -> int:
        found = self.ids.get(value)
        if found is None:
            found = self.ids[value] = len(self.values)
            self.values.append(value)
        return found

    def compact(self, codes: NDArray[np.int32]) -> None:
        """Forget the values that no row has any more (a taint's value may be a time), and renumber `codes`."""
        kept = sorted({0, *np.flatnonzero(np.bincount(codes)).tolist()})
        renumbered = np.zeros(len(self.values), np.int32)
        renumbered[kept] = np.arange(len(kept))
        codes[:] = renumbered[codes]
        self.values = [self.values[code] for code in kept]
        self.ids = {value: code for code, value in enumerate(self.values)}
        self.epoch += 1
