"""The best rows of all, kept in order while single rows change: most choices are read from its beginning."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from math import inf

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Floats

_LONGEST = 2048
_FEW = 32
Place = tuple[float, float, int]
"""Of a row among all: its score below zero, its place in the order of nodes, its number. The best one is the least."""
_START: Place = (-inf, 0.0, 0)
_END: Place = (inf, inf, 0)


class Top:
    """All rows that come before `reach`. Rows that the pod does not fit are not among them."""

    __slots__ = ("_placed", "_places", "reach", "rows")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing is known."""
        self.rows: list[int] = []
        self.reach = _START
        self._places: list[Place] = []
        self._placed: dict[int, Place] = {}

    @property
    def whole(self) -> bool:
        """Whether there are no others."""
        return self.reach == _END

    def fill(self, rows: list[int], scores: Iterable[float], orders: Iterable[float], *, whole: bool) -> None:
        """These rows, in order, are the best. `whole`: and there are no others."""
        self.rows = rows
        self._places = [(-score, order, row) for score, order, row in zip(scores, orders, rows, strict=True)]
        self._placed = dict(zip(rows, self._places, strict=True))
        self.reach = _END if whole else self._places[-1]

    def move(self, row: int, score: float, order: float) -> None:
        """This row changed. `score`: -inf where the pod does not fit."""
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

    def move_many(self, rows: NDArray[np.intp], scores: Floats, orders: Floats) -> None:
        """As `move`. Most of many rows are not among the best, neither before nor now."""
        first, second, _ = self.reach
        near = (-scores < first) | ((-scores == first) & (orders <= second))
        for row, score, order in zip(rows[near].tolist(), scores[near].tolist(), orders[near].tolist(), strict=True):
            self.move(row, score, order)
        if not near.all():
            for row in self._placed.keys() & set(rows[~near].tolist()):
                self.move(row, -inf, 0.0)

    def _shorten(self) -> None:
        for row in self.rows[_LONGEST // 2 :]:
            del self._placed[row]
        del self.rows[_LONGEST // 2 :], self._places[_LONGEST // 2 :]
        self.reach = self._places[-1]


def least_of(scores: Floats, count: int) -> float:
    """A score that the `count` best ones reach; of rows that fit, where they are fewer."""
    least = np.partition(scores, len(scores) - count)[len(scores) - count] if len(scores) > count else -inf
    return max(float(least), float(np.finfo(float).min))


def best_of(rows: NDArray[np.intp], scores: Floats, order: Floats, count: int) -> list[int]:
    """The best of `rows`, as `ranking.Scores.best`. All of them fit."""
    if count and len(rows) > max(count, _FEW):
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        above, ties = np.nonzero(scores > least)[0], np.nonzero(scores == least)[0]
        wanted = count - len(above)
        if len(ties) > wanted:
            ties = ties[np.argpartition(order[ties], wanted - 1)[:wanted]]
        kept = np.concatenate([above, ties])
        rows, scores, order = rows[kept], scores[kept], order[kept]
    found: list[int] = rows[np.lexsort((order, -scores))][:count].tolist()
    return found
