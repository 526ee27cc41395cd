"""Scores of all nodes for one pod shape, kept up to date by what changed, and the best of them.

Rows are cut into blocks of 64. Each block knows its best row, so a changed row costs one block, and the k best rows of
all are in the k blocks whose best rows are best: nothing else is looked at, however many nodes tie. The best few are kept
as a list, which a row that changed leaves and enters again: most choices are read from its beginning.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Set
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Demand, Floats, Rows, Strategy, View
from webhook.cluster.journal import distinct
from webhook.cluster.nodes import Nodes
from webhook.facts import Ranked
from webhook.placement.constraints import Mask
from webhook.placement.filters import fits
from webhook.placement.others import less, less_of
from webhook.placement.shapes import Shape
from webhook.placement.top import Top, best_of, least_of

BLOCK = 64  # divides the size of the columns, which is a power of two from 64 upwards
AVOIDED = 1e6
"""Taken off the score of nodes that GPU metrics advise against. Scores themselves are far smaller."""
_NEVER = -np.inf
_LAST = np.inf
_AT_A_TIME = 2048
_DEARER = 4  # a row by itself costs so many times what it costs among all
_SINGLY = 4
"""So many rows are scored one at a time: numpy takes as long for one as for a few dozen."""
_KEPT = 48
_SMALL = 2048
"""So many rows are looked through as quickly as their blocks."""


class Scores:
    """The scores of one shape, demand and strategy over all rows; -inf where the pod does not fit."""

    def __init__(self, shape: Shape, demand: Demand, strategy: Strategy, gpu: str | None) -> None:
        self.shape = shape
        self.demand = demand
        self.strategy = strategy
        self._gpu = gpu
        """The resource whose free amount is told; None: nothing is."""
        self.score: Floats = np.zeros(0)
        self._best: Floats = np.zeros(0)
        self._first: Floats = np.zeros(0)
        self._stale: NDArray[np.bool_] = np.zeros(0, bool)
        """Blocks whose best row is to be found again."""
        self._top = Top()
        self._ranked: dict[int, Ranked] = {}
        """What is told of a row: see `ranked`. Those that did not change since."""
        self._read_to = -1
        self._seen: View | None = None
        self._view: object = None
        self._order, self._pending = -1, 0
        self._single: Callable[[int], float] = self.score.item

    def refresh(self, nodes: Nodes, view: View) -> None:
        """Compute again what changed since the last time.

        Rows that changed are always computed; a new view, which only shifts what is preferred, is taken up by a bounded
        number of rows at a time, so that no single choice pays for all of a large cluster.
        """
        self.shape.refresh(nodes)
        before, self._read_to = self._read_to, nodes.columns.changes.position
        view_changed = view is not self._seen and self._saw(nodes, view)
        if view_changed or before != self._read_to:
            changed = self._changed(nodes, before)
            if changed is None or (view_changed and nodes.columns.rows <= _AT_A_TIME):
                self._compute_all(nodes, view)
                return
            if view_changed:
                self._pending = 0
            if len(changed) > _SINGLY:
                self._recompute(nodes, distinct(changed, nodes.columns.size), view)
            else:
                for row in set(changed):
                    self.score[row] = score = self._single(row)
                    self._stale[row // BLOCK] = True
                    self._ranked.pop(row, None)
                    self._top.move(row, score, nodes.order.item(row))
        if self._pending < nodes.columns.rows:
            start, self._pending = self._pending, self._pending + _AT_A_TIME
            some = slice(start, min(_blocks(nodes) * BLOCK, self._pending))
            self.score[some] = self._scored(nodes, some, view)
            self._stale[some.start // BLOCK : some.stop // BLOCK] = True
            self._top.forget()
            self._ranked.clear()

    def _saw(self, nodes: Nodes, view: View) -> bool:
        """Take note of a new view. Whether scores change by it."""
        self._seen, self._single = view, self._singly(nodes, view)
        before, self._view = self._view, self.strategy.sees(view)
        return before != self._view

    def _recompute(self, nodes: Nodes, rows: NDArray[np.intp], view: View) -> None:
        """Some rows. Those among the best leave the list of these, and enter it again."""
        self.score[rows] = scores = self._scored(nodes, rows, view)
        self._stale[rows // BLOCK] = True
        for row in self._ranked.keys() & set(rows.tolist()):
            del self._ranked[row]
        self._top.move_many(rows, scores, nodes.order[rows])

    def _changed(self, nodes: Nodes, before: int) -> array[int] | None:
        """The rows that changed; None where it is no longer known, or so many that all are as cheap."""
        if len(self.score) != nodes.columns.size or nodes.reordered != self._order:
            return None
        changed = nodes.columns.changes.since(before)
        return None if changed is None or len(changed) > nodes.columns.rows // _DEARER else changed

    def _compute_all(self, nodes: Nodes, view: View) -> None:
        size, used = nodes.columns.size, _blocks(nodes)
        every = slice(0, used * BLOCK)
        if size != len(self.score):
            self.score, self._stale = np.full(size, _NEVER), np.zeros(size // BLOCK, bool)
            self._best, self._first = np.full(size // BLOCK, _NEVER), np.full(size // BLOCK, _LAST)
            self._single = self._singly(nodes, view)
        self.score[every] = self._scored(nodes, every, view)
        self._stale[:used] = True
        self._top.forget()
        self._ranked.clear()
        self._order, self._pending = nodes.reordered, size

    def _scored(self, nodes: Nodes, rows: Rows, view: View) -> Floats:
        ok = self.shape.mask[rows] & fits(nodes, rows, self.demand)
        scored: Floats = np.where(ok, self.strategy(nodes.columns, rows, self.demand, view), _NEVER)
        if nodes.shares.several:
            scored -= less(nodes, rows, self.demand, self._gpu)
        if nodes.avoided:
            scored -= AVOIDED * (nodes.columns.avoid[rows] > 0)
        return scored

    def _singly(self, nodes: Nodes, view: View) -> Callable[[int], float]:
        """As `_scored`, of one row. Valid until all is computed again, or the view changes."""
        columns, shape, of = nodes.columns, self.shape, self.strategy.single(nodes.columns, self.demand, view)
        wanted = dict(self.demand.requests) | {"pods": 1}
        needs = [(columns.free[name].item, amount) for name, amount in wanted.items() if name in columns.free]
        possible, avoid = len(needs) == len(wanted), columns.avoid
        shares, less_here = nodes.shares, less_of(nodes, self.demand, self._gpu)

        def score(row: int) -> float:
            if not possible or not shape.mask.item(row):
                return _NEVER
            for free, amount in needs:
                if free(row) < amount:
                    return _NEVER
            found = of(row)
            if shares.several:
                found -= less_here(row)
            if nodes.avoided and avoid.item(row) > 0:
                found -= AVOIDED
            return found

        return score

    # --- the best -----------------------------------------------------------------------------------------------------

    def best(self, nodes: Nodes, count: int, apart: Set[int] = frozenset()) -> list[int]:
        """The `count` best rows that fit and are not `apart`: highest score first, equal ones in the order of nodes."""
        top, wanted = self._top, count
        while True:
            found = top.rows[:count]
            if not apart.isdisjoint(found):
                found = list(islice((row for row in top.rows if row not in apart), count))
            if len(found) == count or top.whole:
                return found
            wanted = max(_KEPT, 2 * wanted, 2 * len(top.rows))
            self._list(nodes, wanted)

    def best_within(
        self, nodes: Nodes, count: int, apart: Set[int], rows: Rows, member: Mask | None = None
    ) -> list[int]:
        """As `best`, of some rows. `member`: by row, whether it is one of them; None: every row that fits is."""
        scores = self.score[rows]
        if len(scores) <= BLOCK and not isinstance(rows, slice):
            places = [
                (-score, nodes.order.item(row), row)
                for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
                if score > _NEVER and row not in apart
            ]
            return [row for _, _, row in sorted(places)[:count]]
        if member is not None:  # the best of all come first, and many of them may be of a large domain
            is_one, top = member.item, self._top
            for listed in (0, 4 * _KEPT):
                if listed > len(top.rows) and not top.whole:
                    self._list(nodes, listed)
                found = list(islice((row for row in top.rows if is_one(row) and row not in apart), count))
                if len(found) == count:
                    return found
        mask = scores > _NEVER
        fitting = np.flatnonzero(mask) if isinstance(rows, slice) else rows[mask]
        left = [row for row in fitting.tolist() if row not in apart] if apart else fitting
        left = np.array(left, np.intp)
        return best_of(left, self.score[left], nodes.order[left], count)

    def ranked(self, nodes: Nodes, rows: list[int], peers: Mapping[int, int]) -> tuple[Ranked, ...]:
        """What is told of `rows`. `peers`: pods of the same owner by row."""
        known = self._ranked
        for row in rows:
            if row not in known:
                score = self.score.item(row)
                score += AVOIDED if score < -AVOIDED / 2 else 0.0
                free = nodes.columns.free[self._gpu].item(row) if self._gpu is not None else 0
                known[row] = Ranked(nodes.columns.name[row], free, 0, score)
        found = [known[row] for row in rows]
        if not peers.keys().isdisjoint(rows):
            found = [Ranked(r.node, r.free, peers.get(row, 0), r.score) for row, r in zip(rows, found, strict=True)]
        return tuple(found)

    def _list(self, nodes: Nodes, count: int) -> None:
        """List the best rows anew, so many of them."""
        rows = self._best_rows(nodes, count)
        scores, orders = self.score[rows].tolist(), nodes.order[rows].tolist()
        self._top.fill(rows, scores, orders, whole=len(rows) < count)

    def _best_rows(self, nodes: Nodes, count: int) -> list[int]:
        used = _blocks(nodes)
        if nodes.columns.rows <= _SMALL:
            scores = self.score[: nodes.columns.rows]
            near = np.flatnonzero(scores >= least_of(scores, count))
            return best_of(near, scores[near], nodes.order[near], count)
        self._index(nodes, np.flatnonzero(self._stale))
        blocks = np.lexsort((self._first[:used], -self._best[:used]))[:count]
        least = self._best[blocks[-1]] if len(blocks) == count else _NEVER
        scores = self.score.reshape(-1, BLOCK)[blocks].ravel()
        among = np.nonzero(scores >= least if least > _NEVER else scores > _NEVER)[0]
        rows = blocks[among // BLOCK] * BLOCK + among % BLOCK
        return best_of(rows, scores[among], nodes.order[rows], count)

    def _index(self, nodes: Nodes, blocks: NDArray[np.intp]) -> None:
        """Find the best row of these blocks again: its score, and its place in the order of nodes."""
        scores = self.score.reshape(-1, BLOCK)[blocks]
        best = scores.max(axis=1)
        order = nodes.order.reshape(-1, BLOCK)[blocks]
        self._best[blocks] = best
        self._first[blocks] = np.where(scores == best[:, None], order, _LAST).min(axis=1)
        self._stale[blocks] = False


def _blocks(nodes: Nodes) -> int:
    """How many blocks have rows."""
    return -(-nodes.columns.rows // BLOCK)
