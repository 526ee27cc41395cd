"""The best nodes, as a list that stays in order while nodes change: most choices are read from its beginning."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Set
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

Place = tuple[float, ...]
"""What a row is ordered by, its number last. The best one is the least. Places in one list have equally many numbers."""

_LONGEST = 2048
_NONE: Place = (-inf,)
_ALL: Place = (inf,)


class Top:
    """All rows whose place comes before `_reach`, in order."""

    __slots__ = ("_place_of", "_places", "_reach", "rows")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing is known any more."""
        self.fill([], complete=False)

    def fill(self, places: list[Place], *, complete: bool) -> None:
        """The best rows of all, in order. `complete`: there are no others."""
        self._places = places
        self.rows: list[int] = [int(place[-1]) for place in places]
        self._place_of = dict(zip(self.rows, places, strict=True))
        self._reach = _ALL if complete else places[-1] if places else _NONE

    @property
    def complete(self) -> bool:
        """Whether there are no other rows."""
        return self._reach == _ALL

    def first(self, count: int, skip: Set[int], among: memoryview | None = None) -> list[int]:
        """The `count` best rows but for those to `skip`. `among`: by row, whether it may be one; None: each may."""
        found: list[int] = []
        for row in self.rows:
            if row not in skip and (among is None or among[row]):
                found.append(row)
                if len(found) == count:
                    break
        return found

    def places(self, count: int) -> list[Place]:
        """The places of the `count` best rows."""
        return self._places[:count]

    def move(self, row: int, place: Place | None) -> None:
        """A row changed. `place`: None where it is no longer to be listed."""
        before = self._place_of.pop(row, None)
        if before is not None:
            at = bisect_left(self._places, before)
            del self._places[at], self.rows[at]
        if place is not None and place < self._reach:
            at = bisect_left(self._places, place)
            self._places.insert(at, place)
            self.rows.insert(at, row)
            self._place_of[row] = place
            if len(self.rows) > _LONGEST:
                self.fill(self._places[: _LONGEST // 2], complete=False)


def smallest(count: int, keys: list[NDArray[Any]]) -> NDArray[np.intp]:
    """Where the `count` smallest are, in order: by the first key, equal ones by the next."""
    left = np.arange(len(keys[0]))
    sure: list[NDArray[np.intp]] = []
    for key in keys:
        if len(left) <= count:
            break
        values = key[left]
        limit = np.partition(values, count - 1)[count - 1]
        sure.append(left[values < limit])
        count -= len(sure[-1])
        left = left[values == limit]
    found = np.concatenate([*sure, left[:count]])
    return found[np.lexsort([key[found] for key in keys[::-1]])]
