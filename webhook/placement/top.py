"""The best rows of all, kept in order while rows change: most choices are read from its beginning."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Set
from math import inf

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Floats

_LONGEST = 2048
_LOWEST = float(np.finfo(float).min)
Place = tuple[float, float, int]
"""Of a row among all: its score below zero, its place in the order of nodes, its number. The best one is the least."""
_START: Place = (-inf, 0.0, 0)
_END: Place = (inf, inf, 0)


class Top:
    """All rows that come before `reach`. Rows that the pod does not fit are not among them."""

    __slots__ = ("_listed", "_placed", "_places", "reach", "rows")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing is known."""
        self.rows: list[int] = []
        self.reach = _START
        self._listed: NDArray[np.complex128] | None = None
        """The places of `rows`, until one of them moves."""
        self._places: list[Place] = []
        self._placed: dict[int, Place] = {}

    @property
    def whole(self) -> bool:
        """Whether there are no others."""
        return self.reach == _END

    @property
    def known(self) -> bool:
        """Whether anything is."""
        return self.reach != _START

    @property
    def least(self) -> float:
        """Rows with a lower score are not listed."""
        return max(-self.reach[0], _LOWEST)

    def first(self, count: int, apart: Set[int], member: memoryview | None = None) -> list[int]:
        """The `count` first ones that are not `apart`. `member`: by row, whether it may be one; None: all may."""
        found: list[int] = []
        for row in self.rows:  # mypyc would make a generator a list of all of them
            if row not in apart and (member is None or member[row]):
                found.append(row)
                if len(found) == count:
                    break
        return found

    def fill(self, rows: NDArray[np.intp], scores: Floats, orders: Floats, count: int) -> None:
        """The `count` best of `rows` are the best of all. All of them fit; where they are fewer there are no others."""
        self.reach = _END
        self.renew(rows, scores, orders, count)
        if len(self.rows) == count:
            self.reach = self._last()

    def renew(self, rows: NDArray[np.intp], scores: Floats, orders: Floats, most: int) -> None:
        """Many rows changed, and those that come before `reach` now are all in `rows`. So many of the best are kept."""
        places = together(scores, orders)
        best = best_of(places, most)
        self.rows, self._listed = rows[best].tolist(), places[best]
        if self.rows and self._last() > self.reach:
            self._spread_out()
            within = bisect_right(self._places, self.reach)
            for row in self.rows[within:]:
                del self._placed[row]
            del self.rows[within:], self._places[within:]
        elif len(self.rows) < len(rows):
            self.reach = self._last()

    def _last(self) -> Place:
        """The place of the last of `rows`, which are `_listed`."""
        assert self._listed is not None
        last = self._listed.item(-1)
        return last.real, last.imag, self.rows[-1]

    def _spread_out(self) -> None:
        """Know the places one by one."""
        if self._listed is not None:
            self._places = list(zip(self._listed.real.tolist(), self._listed.imag.tolist(), self.rows, strict=True))
            self._placed = dict(zip(self.rows, self._places, strict=True))
            self._listed = None

    def move(self, row: int, score: float, order: float) -> None:
        """This row changed. `score`: -inf where the pod does not fit."""
        if self._listed is not None:
            self._spread_out()
        before = self._placed.pop(row, None)
        if before is not None:
            at = bisect_left(self._places, before)
            del self._places[at], self.rows[at]
        place = (-score, order, row)
        if score > -inf and place < self.reach:
            at = bisect_left(self._places, place)
            self._places.insert(at, place)
            self.rows.insert(at, row)
            self._placed[row] = place
            if len(self.rows) > _LONGEST:
                self._shorten()

    def _shorten(self) -> None:
        for row in self.rows[_LONGEST // 2 :]:
            del self._placed[row]
        del self.rows[_LONGEST // 2 :], self._places[_LONGEST // 2 :]
        self.reach = self._places[-1]


def together(scores: Floats, orders: Floats) -> NDArray[np.complex128]:
    """Places as numbers that sort as they do: by their real parts, equal ones by the other."""
    both = np.empty(len(scores), complex)
    np.negative(scores, out=both.real)
    both.imag = orders
    return both


def best_of(places: NDArray[np.complex128], count: int) -> NDArray[np.intp]:
    """Where the `count` first ones are, in order."""
    if len(places) <= count:
        return places.argsort()
    best = places.argpartition(count - 1)[:count]
    return best[places[best].argsort()]
