"""Scores of all nodes for one pod shape, kept up to date by what changed, and the best of them.

Rows are cut into blocks of 64. Each block knows its best row, so a changed row costs one block, and the k best rows of
all are in the k blocks whose best rows are best: nothing else is looked at, however many nodes tie. The best few are kept
as a list, which a row that changed leaves and enters again: most choices are read from its beginning.
"""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Demand, Floats, Rows, Strategy, View
from webhook.cluster.journal import distinct
from webhook.cluster.nodes import Nodes
from webhook.cluster.usage import Usage
from webhook.placement.constraints import Mask, matches
from webhook.placement.filters import Filter, fits

BLOCK = 64  # divides the size of the columns, which is a power of two from 64 upwards
AVOIDED = 1e6
"""Taken off the score of nodes that GPU metrics advise against. Scores themselves are far smaller."""
_NEVER = -np.inf
_LAST = np.inf
_AT_A_TIME = 2048
_NEAR = 0.05
"""Where replicas share the choice, scores that differ by less count as equal, so that each replica has nodes of its own
among them and two do not race for the same one."""
_DEARER = 4  # a row by itself costs so many times what it costs among all
_FEW = 32
_KEPT = 48
_Place = tuple[float, float, int]
"""Of a row among all: its score below zero, its place in the order of nodes, its number. The best one is the least."""
_END: _Place = (np.inf, np.inf, 0)


class Shape:
    """Where pods of one shape may go: the static filter over all rows, and how much the user wishes for each."""

    def __init__(self, static: Filter) -> None:
        self.filter = static
        self.mask: Mask = np.zeros(0, bool)
        self.wish: NDArray[np.int64] | None = None
        """Sum of the weights of the user's own preferred terms; None where there are none."""
        self._read_to = -1

    def refresh(self, nodes: Nodes) -> None:
        position = nodes.changes.position
        if position == self._read_to:
            return
        changed = nodes.changes.since(self._read_to) if len(self.mask) == nodes.columns.size else None
        rows: Rows = slice(0, nodes.columns.size) if changed is None else distinct(changed, nodes.columns.size)
        if changed is None:
            self.mask = np.zeros(nodes.columns.size, bool)
            self.wish = np.zeros(nodes.columns.size, np.int64) if self.filter.constraints.preferred else None
        self.mask[rows] = self.filter.mask(nodes, rows)
        if self.wish is not None:
            wish = np.zeros(nodes.order[rows].shape, np.int64)
            for term, weight in self.filter.constraints.preferred:
                wish += weight * matches(term, nodes, rows)
            self.wish[rows] = wish
        self._read_to = position


class Scores:
    """The scores of one shape, demand and strategy over all rows; -inf where the pod does not fit."""

    def __init__(self, shape: Shape, demand: Demand, strategy: Strategy) -> None:
        self.shape = shape
        self.demand = demand
        self.strategy = strategy
        self.score: Floats = np.zeros(0)
        self._best: Floats = np.zeros(0)
        self._first: Floats = np.zeros(0)
        self._stale: set[int] = set()
        """Blocks whose best row is to be found again."""
        self._top: list[_Place] = []
        """The best rows, in order: all that come before `_reach`."""
        self._reach: _Place = (-np.inf, 0.0, 0)
        self._read_to = (-1, -1)
        self._view = -1
        self._order = -1
        self._pending = 0

    def refresh(self, nodes: Nodes, usage: Usage, view: View) -> None:
        """Compute again what changed since the last time.

        Rows that changed are always computed; a new view, which only shifts what is preferred, is taken up by a bounded
        number of rows at a time, so that no single choice pays for all of a large cluster.
        """
        self.shape.refresh(nodes)
        before, self._read_to = self._read_to, (nodes.changes.position, usage.changes.position)
        changed = self._changed(nodes, usage, before)
        if changed is None or (view.version != self._view and nodes.columns.rows <= _AT_A_TIME):
            self._compute_all(nodes, view)
            return
        if len(changed) > _FEW:
            self.score[changed] = self._scored(nodes, changed, view)
            blocks = changed // BLOCK
            self._index(nodes, blocks[np.flatnonzero(np.diff(blocks, prepend=-1))])
        elif len(changed):
            self._recompute(nodes, changed.tolist(), view)
        if view.version != self._view:
            self._view, self._pending = view.version, 0
        used = _blocks(nodes) * BLOCK
        if self._pending < used:
            start, self._pending = self._pending, min(used, self._pending + _AT_A_TIME)
            some = slice(start, self._pending)
            self.score[some] = self._scored(nodes, some, view)
            self._index(nodes, slice(start // BLOCK, self._pending // BLOCK))

    def _recompute(self, nodes: Nodes, changed: list[int], view: View) -> None:
        """A few rows: they leave the list of the best and enter it again."""
        rows: Rows = np.array(changed)
        if len(changed) == 1:
            rows = slice(changed[0], changed[0] + 1)  # numpy takes a view in half the time of a copy
        scores = self.score[rows] = self._scored(nodes, rows, view)
        self._stale.update([row // BLOCK for row in changed])
        self._top = [place for place in self._top if place[2] not in changed]
        for row, score, order in zip(changed, scores.tolist(), nodes.order[rows].tolist(), strict=True):
            place = (-score, order, row)
            if score > _NEVER and place < self._reach:
                insort(self._top, place)

    def _changed(self, nodes: Nodes, usage: Usage, before: tuple[int, int]) -> NDArray[np.intp] | None:
        """The rows that changed, in rising order; None where it is no longer known, or so many that all are as cheap."""
        if len(self.score) != nodes.columns.size or nodes.reordered != self._order:
            return None
        by_node, by_pod = nodes.changes.since(before[0]), usage.changes.since(before[1])
        if by_node is None or by_pod is None or len(by_node) + len(by_pod) > nodes.columns.rows // _DEARER:
            return None
        return distinct(by_node + by_pod, nodes.columns.size)

    def _compute_all(self, nodes: Nodes, view: View) -> None:
        size, used = nodes.columns.size, _blocks(nodes)
        every = slice(0, used * BLOCK)
        self.score = np.full(size, _NEVER)
        self.score[every] = self._scored(nodes, every, view)
        self._best = np.full(size // BLOCK, _NEVER)
        self._first = np.full(size // BLOCK, _LAST)
        self._index(nodes, slice(0, used))
        self._view, self._order, self._pending = view.version, nodes.reordered, size

    def _scored(self, nodes: Nodes, rows: Rows, view: View) -> Floats:
        ok = self.shape.mask[rows] & fits(nodes, rows, self.demand)
        scored: Floats = np.where(ok, self.strategy(nodes.columns, rows, self.demand, view), _NEVER)
        if nodes.shared:
            scored = np.round(scored / _NEAR) * _NEAR
        if nodes.avoided:
            scored -= AVOIDED * (nodes.columns.avoid[rows] > 0)
        return scored

    def _index(self, nodes: Nodes, blocks: Rows) -> None:
        """Find the best row of these blocks again: its score, and its place in the order of nodes."""
        self._top, self._reach = [], (-np.inf, 0.0, 0)
        scores = self.score.reshape(-1, BLOCK)[blocks]
        best = scores.max(axis=1)
        order = nodes.order.reshape(-1, BLOCK)[blocks]
        self._best[blocks] = best
        self._first[blocks] = np.where(scores == best[:, None], order, _LAST).min(axis=1)

    # --- the best -----------------------------------------------------------------------------------------------------

    def best(self, nodes: Nodes, count: int) -> list[int]:
        """The `count` best rows that fit: highest score first, equal ones in the order of nodes."""
        if len(self._top) < count and self._reach < _END:
            if self._stale:
                self._index(nodes, np.fromiter(self._stale, np.intp, len(self._stale)))
                self._stale.clear()
            rows = self._best_rows(nodes, max(count, _KEPT))
            self._top = list(zip((-self.score[rows]).tolist(), nodes.order[rows].tolist(), rows, strict=True))
            self._reach = self._top[-1] if len(rows) >= max(count, _KEPT) else _END
        return [row for _, _, row in self._top[:count]]

    def _best_rows(self, nodes: Nodes, count: int) -> list[int]:
        used = _blocks(nodes)
        blocks = np.lexsort((self._first[:used], -self._best[:used]))[:count]
        least = self._best[blocks[-1]] if len(blocks) == count else _NEVER
        scores = self.score.reshape(-1, BLOCK)[blocks].ravel()
        among = np.nonzero(scores >= least if least > _NEVER else scores > _NEVER)[0]
        rows = blocks[among // BLOCK] * BLOCK + among % BLOCK
        return best_of(rows, scores[among], nodes.order[rows], count)


def best_of(rows: NDArray[np.intp], scores: Floats, order: Floats, count: int) -> list[int]:
    """The best of `rows`, as `Scores.best`. All of them fit."""
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


def _blocks(nodes: Nodes) -> int:
    """How many blocks have rows."""
    return -(-nodes.columns.rows // BLOCK)
