"""Scores of all nodes for one pod shape, kept up to date by what changed, and the best of them.

Rows are cut into blocks of 64. Each block knows its best row, so a changed row costs one block, and the k best rows of
all are in the k blocks whose best rows are best: nothing else is looked at, however many nodes tie.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Demand, Floats, Rows, Strategy, View
from webhook.cluster.nodes import Nodes
from webhook.cluster.usage import Usage
from webhook.placement.constraints import Mask, matches
from webhook.placement.filters import Filter, fits

BLOCK = 64  # divides the size of the columns, which is a power of two from 64 upwards
_NEVER = -np.inf
_LAST = np.inf


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
        rows: Rows = slice(0, nodes.columns.size) if changed is None else distinct(changed)
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
        self._read_to = (-1, -1)
        self._view = -1
        self._order = -1

    def refresh(self, nodes: Nodes, usage: Usage, view: View) -> None:
        """Compute again what changed since the last time."""
        self.shape.refresh(nodes)
        before, self._read_to = self._read_to, (nodes.changes.position, usage.changes.position)
        if len(self.score) == nodes.columns.size and view.version == self._view and nodes.reordered == self._order:
            if before == self._read_to:
                return
            by_node, by_pod = nodes.changes.since(before[0]), usage.changes.since(before[1])
            if by_node is not None and by_pod is not None and len(by_node) + len(by_pod) < nodes.columns.rows:
                rows = distinct(by_node + by_pod)
                self.score[rows] = self._scored(nodes, rows, view)
                self._index(nodes, np.unique(rows // BLOCK))
                return
        used = -(-nodes.columns.rows // BLOCK)
        every = slice(0, used * BLOCK)
        self.score = np.full(nodes.columns.size, _NEVER)
        self.score[every] = self._scored(nodes, every, view)
        self._best = np.full(nodes.columns.size // BLOCK, _NEVER)
        self._first = np.full(nodes.columns.size // BLOCK, _LAST)
        self._index(nodes, slice(0, used))
        self._view, self._order = view.version, nodes.reordered

    def _scored(self, nodes: Nodes, rows: Rows, view: View) -> Floats:
        ok = self.shape.mask[rows] & fits(nodes, rows, self.demand)
        scored: Floats = np.where(ok, self.strategy(nodes.columns, rows, self.demand, view), _NEVER)
        return scored

    def _index(self, nodes: Nodes, blocks: Rows) -> None:
        """Find the best row of these blocks again: its score, and its place in the order of nodes."""
        scores = self.score.reshape(-1, BLOCK)[blocks]
        best = scores.max(axis=1)
        order = nodes.order.reshape(-1, BLOCK)[blocks]
        self._best[blocks] = best
        self._first[blocks] = np.where(scores == best[:, None], order, _LAST).min(axis=1)

    # --- the best -----------------------------------------------------------------------------------------------------

    def best(self, nodes: Nodes, count: int) -> list[int]:
        """The `count` best rows that fit: highest score first, equal ones in the order of nodes."""
        used = -(-nodes.columns.rows // BLOCK)
        blocks = np.lexsort((self._first[:used], -self._best[:used]))[:count]
        scores = self.score.reshape(-1, BLOCK)[blocks].ravel()
        rows = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        return best_of(rows, scores, nodes.order[rows], count)

    def best_without(self, nodes: Nodes, count: int, excluded: NDArray[np.intp]) -> list[int]:
        """As `best`, among the other rows."""
        if not len(excluded):
            return self.best(nodes, count)
        kept, blocks = self.score[excluded], np.unique(excluded // BLOCK)
        before = self._best[blocks], self._first[blocks]
        self.score[excluded] = _NEVER
        self._index(nodes, blocks)
        found = self.best(nodes, count)
        self.score[excluded] = kept
        self._best[blocks], self._first[blocks] = before
        return found


def best_of(rows: NDArray[np.intp], scores: Floats, order: Floats, count: int) -> list[int]:
    """The best of `rows`, as `Scores.best`; -inf does not count."""
    if len(scores) > count:
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        if least == _NEVER:
            candidates = scores > _NEVER
        else:
            above = scores > least
            ties = np.nonzero(scores == least)[0]
            wanted = count - int(np.count_nonzero(above))
            if len(ties) > wanted:
                ties = ties[np.argpartition(order[ties], wanted - 1)[:wanted]]
            candidates = above
            candidates[ties] = True
    else:
        candidates = scores > _NEVER
    rows, scores, order = rows[candidates], scores[candidates], order[candidates]
    found: list[int] = rows[np.lexsort((order, -scores))].tolist()
    return found


def distinct(rows: Sequence[int]) -> NDArray[np.intp]:
    """Each row once."""
    return np.fromiter(set(rows), np.intp)
