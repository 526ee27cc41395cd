"""Scores of all nodes for one pod shape, kept up to date by what changed, and the best of them.

The best few are kept as a list (`top`), which a row that changed leaves and enters again: most choices are read from its
beginning.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Demand, Floats, Rows, Strategy, View
from webhook.cluster.journal import marked
from webhook.cluster.nodes import Nodes
from webhook.facts import Ranked
from webhook.placement.constraints import Mask
from webhook.placement.filters import fitting
from webhook.placement.others import less, less_of
from webhook.placement.shapes import Shape
from webhook.placement.top import Top, best_of, together

AVOIDED = 1e6
"""Taken off the score of nodes that GPU metrics advise against. Scores themselves are far smaller."""
_NEVER = -np.inf
_AT_A_TIME = 2048
_DEARER = 4  # a row by itself costs so many times what it costs among all
_SINGLY = 12
"""So many rows are scored one at a time: numpy takes as long for one as for a few dozen."""
_MANY = 64  # changes that are worth a look at how many rows they are of
_KEPT, _MOST = 48, 192
"""So many of the best are listed at first, and where these are too few but for a moment."""
_HANDFUL = 64  # rows that are sorted sooner one by one
_SMALL = 2048
"""So many rows are all computed as quickly as some of them."""
_SAMPLED = 1024


class Scores:
    """The scores of one shape, demand and strategy over all rows; -inf where the pod does not fit."""

    def __init__(self, shape: Shape, demand: Demand, strategy: Strategy, gpu: str | None) -> None:
        self.shape = shape
        self.demand = demand
        self.strategy = strategy
        self._gpu = gpu
        """The resource whose free amount is told; None: nothing is."""
        needs = dict(demand.requests) | {"pods": 1}
        self._needs = sorted(needs.items(), key=lambda need: need[0] != gpu)
        """What must be free, the scarcest first."""
        self.score: Floats = np.zeros(0)
        self._top = Top()
        self._ranked: dict[int, Ranked] = {}
        """What is told of a row: see `ranked`. Those that did not change since."""
        self._read_to = -1
        self._seen: View | None = None
        self._view: object = None
        self._order, self._pending, self._listed = -1, 0, _KEPT
        self._single: Callable[[int], float] = self.score.item
        self._score_at: Any = self.score.data

    def refresh(self, nodes: Nodes, view: View) -> None:
        """Compute again what changed since the last time.

        Rows that changed are always computed; a new view, which only shifts what is preferred, is taken up by a bounded
        number of rows at a time, so that no single choice pays for all of a large cluster.
        """
        self.shape.refresh(nodes)
        before, self._read_to = self._read_to, nodes.columns.changes.position
        view_changed = view is not self._seen and self._saw(nodes, view)
        if view_changed:
            self._pending = 0
        if view_changed or before != self._read_to:
            changed = self._changed(nodes, before)
            few = () if changed is None or len(changed) > _MANY else set(changed)
            many = changed is None or len(few or changed) > _SINGLY
            if changed is None or ((many or view_changed) and nodes.columns.rows <= _SMALL):
                self._compute_all(nodes, view)
                return
            if not many:
                top, order = self._top, nodes.order.item
                for row in few:
                    self._score_at[row] = score = self._single(row)
                    top.move(row, score, order(row))
                    self._ranked.pop(row, None)
            else:
                mark = marked(changed, nodes.columns.size)
                self._recompute(nodes, mark.nonzero()[0], mark, view)
        if self._pending < nodes.columns.rows:
            start, self._pending = self._pending, self._pending + _AT_A_TIME
            mark, rows = np.zeros(nodes.columns.size, bool), slice(start, self._pending)
            mark[rows] = True
            self._recompute(nodes, rows, mark, view)

    def _saw(self, nodes: Nodes, view: View) -> bool:
        """Take note of a new view. Whether scores change by it."""
        self._seen, self._single = view, self._singly(nodes, view)
        before, self._view = self._view, self.strategy.sees(view)
        return before != self._view

    def _recompute(self, nodes: Nodes, rows: Rows, mark: Mask, view: View) -> None:
        """Some rows, which are those with a `mark`."""
        able, scores = self._scored(nodes, rows, view)
        self.score[rows] = _NEVER
        self.score[able] = scores
        self._ranked.clear()
        if self._top.known:
            listed = np.array(self._top.rows, np.intp)
            near = np.concatenate([listed[~mark[listed]], able[scores >= self._top.least]])
            self._top.renew(near, self.score[near], nodes.order[near], self._listed)

    def _changed(self, nodes: Nodes, before: int) -> array[int] | None:
        """The rows that changed; None where it is no longer known, or so many that all are as cheap."""
        if len(self.score) != nodes.columns.size or nodes.reordered != self._order:
            return None
        used = nodes.columns.rows
        many = _MANY if used <= _SMALL else used if self._pending >= used else used // _DEARER
        return None if self._read_to - before > many else nodes.columns.changes.since(before)

    def _compute_all(self, nodes: Nodes, view: View) -> None:
        size = nodes.columns.size
        if size != len(self.score):
            self.score = np.full(size, _NEVER)
            self._score_at = self.score.data
            self._single = self._singly(nodes, view)
        able, scores = self._scored(nodes, slice(0, size), view)
        self.score.fill(_NEVER)
        self.score[able] = scores
        self._ranked.clear()
        if nodes.columns.rows <= _SMALL:
            self._top.fill(able, scores, nodes.order[able], self._listed)
        else:
            self._top.forget()
        self._order, self._pending = nodes.reordered, size

    def _scored(self, nodes: Nodes, rows: Rows, view: View) -> tuple[NDArray[np.intp], Floats]:
        """Those of `rows` that the pod fits, and their scores."""
        able = fitting(nodes.columns, self.shape.mask, rows, self._needs)
        if not len(able):
            return able, np.zeros(0)
        found = self.strategy(nodes.columns, able, self.demand, view)
        if nodes.shares.several:
            found = found - less(nodes.shares, nodes.columns, able, self.demand, self._gpu)
        if nodes.avoided:
            found = found - AVOIDED * (nodes.columns.avoid[able] > 0)
        return able, found

    def _singly(self, nodes: Nodes, view: View) -> Callable[[int], float]:
        """As `_scored`, of one row. Valid until all is computed again, or the view changes."""
        columns, shape, of = nodes.columns, self.shape, self.strategy.single(nodes.columns, self.demand, view)
        needs = [(columns.free_at[name], amount) for name, amount in self._needs if name in columns.free]
        possible, avoid = len(needs) == len(self._needs), columns.avoid
        shares, less_here = nodes.shares, less_of(nodes.shares, columns, self.demand, self._gpu)
        fits = shape.mask.data

        def score(row: int) -> float:
            if not possible or not fits[row]:
                return _NEVER
            for free, amount in needs:
                if free[row] < amount:
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
                found = top.first(count, apart)
            if len(found) == count or top.whole:
                return found
            wanted = max(self._listed, 2 * wanted, 2 * len(top.rows))
            self._list(nodes, wanted)

    def best_within(
        self, nodes: Nodes, count: int, apart: Set[int], rows: Rows, member: Mask | None = None
    ) -> list[int]:
        """As `best`, of some rows. `member`: by row, whether it is one of them; None: every row that fits is."""
        scores = self.score[rows]
        if len(scores) <= _HANDFUL and not isinstance(rows, slice):
            places = [
                (-score, nodes.order.item(row), row)
                for row, score in zip(rows.tolist(), scores.tolist(), strict=True)
                if score > _NEVER and row not in apart
            ]
            return [row for _, _, row in sorted(places)[:count]]
        if member is not None:  # the best of all come first, and many of them may be of a large domain
            top = self._top
            for listed in (0, _MOST):
                if listed > len(top.rows) and not top.whole:
                    self._list(nodes, listed)
                found = top.first(count, apart, member.data)
                if len(found) == count:
                    return found
        mask = scores > _NEVER
        fitting = np.flatnonzero(mask) if isinstance(rows, slice) else rows[mask]
        left = [row for row in fitting.tolist() if row not in apart] if apart else fitting
        left = np.array(left, np.intp)
        best: list[int] = left[best_of(together(self.score[left], nodes.order[left]), count)].tolist()
        return best

    def ranked(self, nodes: Nodes, rows: list[int], peers: Mapping[int, int]) -> tuple[Ranked, ...]:
        """What is told of `rows`. `peers`: pods of the same owner by row."""
        known = self._ranked
        found = [known.get(row) or self._tell(nodes, row) for row in rows]
        if not peers.keys().isdisjoint(rows):
            found = [Ranked(r.node, r.free, peers.get(row, 0), r.score) for row, r in zip(rows, found, strict=True)]
        return tuple(found)

    def _tell(self, nodes: Nodes, row: int) -> Ranked:
        score = self._score_at[row]
        score += AVOIDED if score < -AVOIDED / 2 else 0.0
        free = nodes.columns.free_at[self._gpu][row] if self._gpu is not None else 0
        found = self._ranked[row] = Ranked(nodes.columns.name[row], free, 0, score)
        return found

    def _list(self, nodes: Nodes, count: int) -> None:
        """List the best rows anew, so many of them."""
        self._listed = min(count, _MOST)
        rows = self._near(nodes.columns.rows, count)
        self._top.fill(rows, self.score[rows], nodes.order[rows], count)

    def _near(self, used: int, count: int) -> NDArray[np.intp]:
        """Rows among which the `count` best ones are: those that reach a score which a sample lets expect."""
        scores = self.score[:used]
        if used > _SMALL:
            some = scores[:: used // _SAMPLED | 1]  # an odd step: nodes of a kind often come at even ones
            enough = len(some) - 4 - 2 * count * len(some) // used
            while enough > 0 and (least := np.partition(some, enough)[enough]) > _NEVER:
                rows = (scores >= least).nonzero()[0]
                if len(rows) >= count:
                    return np.asarray(rows)
                enough -= 3 * (len(some) - enough)
        return (scores > _NEVER).nonzero()[0]
