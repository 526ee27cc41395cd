"""Filter and score: the nodes that pods of one shape fit, and what each is worth to them, kept up to date by what changed."""

from __future__ import annotations

from collections.abc import Set
from itertools import count as counter
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.journal import distinct
from webhook.cluster.node_table import Columns, Demand, Floats, Rows, Strategy, View
from webhook.cluster.nodes import Nodes
from webhook.placement.constraints import Mask, matches
from webhook.placement.filters import Filter
from webhook.placement.node_states import states
from webhook.placement.replica_penalty import replica_penalty
from webhook.placement.top import Place, Top, smallest

AVOIDED: Final = 1e6
"""Taken off the score of nodes that GPU metrics advise against. Scores themselves are far smaller."""
_NEVER: Final = -np.inf
_AT_A_TIME = 2048
"""So many rows take up a new view with each choice, so that no single one pays for all of a large cluster."""
_DEARER = 4  # a row by itself costs so many times what it costs among all
_FEW = 64
"""So many rows that changed move in the list of the best; with more of them it is made anew when it is needed."""
_LISTED = 192
_SAMPLED = 1024
_epochs = counter(1)


class NodeScores:
    """One score per row for one filter, demand and strategy; -inf where the pod does not fit."""

    def __init__(
        self, static: Filter, demand: Demand, strategy: Strategy, gpu: str | None, filter_bytes: int = 0
    ) -> None:
        self.filter = static
        self.demand = demand
        self.strategy = strategy
        self.gpu = gpu
        """The resource of GPUs that is asked for; None: none is."""
        self._filter_bytes = filter_bytes
        self._needs = dict(demand.requests) | {"pods": 1}
        self.score: Floats = np.zeros(0)
        self.epoch = 0
        """Another number, of which there is only one, when other scores are new than those of a few rows that changed."""
        self.preference: NDArray[np.int64] | None = None
        """By row, the weights of the preferred terms that it meets; None where there are no such terms."""
        self._mask: Mask = np.zeros(0, bool)
        """By row, what the filter says, whatever is free."""
        self._values: Floats = np.zeros(0)
        """By state of nodes, the score; NaN where it was not yet worked out. Most choices find theirs here: that saves 60 µs of
        it, and 28 ms of the first one among 65,000 nodes of 84 states."""
        self._epoch = -1
        self._top = Top()
        """The best rows. It saves a choice the search through all scores: 30 µs at 1,213 nodes, 200 µs at 65,000."""
        self._mask_read_to = self._read_to = self._reordered = -1
        self._view: View | None = None
        self._seen: object = None
        self._pending = 0

    @property
    def kept_bytes(self) -> int:
        """What is kept of this shape."""
        preference = 0 if self.preference is None else self.preference.nbytes
        return int(self.score.nbytes + self._mask.nbytes + preference + self._values.nbytes + self._filter_bytes)

    def refresh(self, nodes: Nodes, view: View) -> None:
        """Filter and score again what changed since the last time."""
        if len(self.score) != nodes.columns.size or nodes.reordered != self._reordered:
            self._start(nodes)
        if nodes.changes.position != self._mask_read_to:
            self._filter(nodes)
        if view is not self._view:
            seen, self._view = self.strategy.sees(view), view
            if seen != self._seen:
                self._seen, self._pending, self._epoch = seen, 0, -1
                # What a strategy derives from the nodes at this moment is the same, whether a node passes the filter or not.
                self._worked_out(nodes.columns, np.zeros(0, np.intp), view)
        changes = nodes.columns.changes
        changed = changes.since(self._read_to) if self._read_to >= 0 else None
        self._read_to = changes.position
        used = nodes.columns.rows
        if changed is None or len(changed) > used // _DEARER + _FEW:
            self._score(nodes, slice(0, nodes.columns.size), view)
            self._pending = used
        elif len(changed):
            self._score(nodes, distinct(changed, nodes.columns.size), view)
        if self._pending < used:
            start, self._pending = self._pending, self._pending + _AT_A_TIME
            self._score(nodes, slice(start, self._pending), view)

    def _start(self, nodes: Nodes) -> None:
        size = nodes.columns.size
        self.score, self._mask = np.full(size, _NEVER), np.zeros(size, bool)
        self.preference = np.zeros(size, np.int64) if self.filter.constraints.preferred else None
        self._mask_read_to, self._read_to, self._reordered = -1, -1, nodes.reordered

    def _filter(self, nodes: Nodes) -> None:
        changed = nodes.changes.since(self._mask_read_to) if self._mask_read_to >= 0 else None
        self._mask_read_to = nodes.changes.position
        size = nodes.columns.size
        rows: Rows = slice(0, size) if changed is None else distinct(changed, size)
        self._mask[rows] = self.filter.mask(nodes, rows)
        if self.preference is not None:
            weights = np.zeros(nodes.order[rows].shape, np.int64)
            for term, weight in self.filter.constraints.preferred:
                weights += weight * matches(term, nodes, rows)
            self.preference[rows] = weights

    def _score(self, nodes: Nodes, rows: Rows, view: View) -> None:
        columns = nodes.columns
        self.score[rows] = _NEVER
        passing = self._mask[rows].nonzero()[0] + rows.start if isinstance(rows, slice) else rows[self._mask[rows]]
        score = self._by_state(columns, passing, view)
        if nodes.shares.several:
            score = score - replica_penalty(nodes.shares, columns, passing, self.demand, self.gpu)
        if nodes.avoided:
            score = score - AVOIDED * (columns.avoid[passing] > 0)
        self.score[passing] = score
        if isinstance(rows, slice) or len(rows) > _FEW:
            self._top.forget()
            self.epoch = next(_epochs)
        else:
            for row in rows.tolist():
                self._top.move(row, self.place(nodes, row))

    def _by_state(self, columns: Columns, rows: NDArray[np.intp], view: View) -> Floats:
        """Scores of rows: for each state worked out once, on one of its rows."""
        known = states(columns)
        if known.epoch != self._epoch:
            self._epoch, self._values = known.epoch, np.zeros(0)
        if known.count > len(self._values):
            room = 2 * known.count - len(self._values)
            self._values = np.concatenate([self._values, np.full(room, np.nan)])
        numbers = known.of_row[rows]
        values: Floats = self._values[numbers]
        unknown = np.isnan(values)
        if unknown.any():
            row_of = np.full(known.count, -1)
            row_of[numbers[unknown]] = rows[unknown]
            which = (row_of >= 0).nonzero()[0]
            self._values[which] = self._worked_out(columns, row_of[which], view)
            values = self._values[numbers]
        return values

    def _worked_out(self, columns: Columns, rows: NDArray[np.intp], view: View) -> Floats:
        scores = self.strategy(columns, rows, self.demand, view)
        for resource, amount in self._needs.items():
            free = columns.free.get(resource)
            scores = np.where(free[rows] >= amount, scores, _NEVER) if free is not None else np.full(len(rows), _NEVER)
        return scores

    # --- the best -----------------------------------------------------------------------------------------------------

    def place(self, nodes: Nodes, row: int) -> Place | None:
        """What a row is ordered by: what is preferred, the score, the order of nodes. None where the pod does not fit."""
        score = self.score.item(row)
        if score == _NEVER:
            return None
        return -self.preference.item(row) if self.preference is not None else 0, -score, nodes.order.item(row), row

    def best(self, nodes: Nodes, count: int, skip: Set[int], among: Mask | None = None) -> list[int]:
        """The `count` best rows but for those to `skip`. `among`: by row, whether it may be one; None: each may."""
        top, wanted = self._top, count + len(skip)
        if len(top.rows) < wanted and not top.complete:
            listed = _LISTED + len(skip)
            places = self.places(nodes, listed)
            top.fill(places, complete=len(places) < listed)
        found = top.first(count, skip, None if among is None else among.data)
        if len(found) == count or top.complete:
            return found
        rows = [int(place[-1]) for place in self.places(nodes, wanted, among)]
        return [row for row in rows if row not in skip][:count]

    def places(self, nodes: Nodes, count: int, among: Mask | None = None) -> list[Place]:
        """The `count` best places, in order. `among`: as for `best`."""
        score = self.score if among is None else np.where(among, self.score, _NEVER)
        rows = (
            _promising(score[: nodes.columns.rows], count) if self.preference is None else (score > _NEVER).nonzero()[0]
        )
        keys = [-score[rows], nodes.order[rows]]
        if self.preference is not None:
            keys.insert(0, -self.preference[rows])
        first = smallest(count, keys)
        values = [key[first].tolist() for key in keys]
        preferred = repeat(0) if self.preference is None else values[0]
        return list(zip(preferred, values[-2], values[-1], rows[first].tolist(), strict=False))


def _promising(score: Floats, count: int) -> NDArray[np.intp]:
    """Rows among which the `count` best ones are: those that reach a score which a sample lets expect. Of 65,000 nodes that
    leaves some hundred to be sorted."""
    if len(score) > 2 * _SAMPLED:
        sample = score[:: len(score) // _SAMPLED | 1]  # an odd step: nodes of a kind often come at even ones
        limit = len(sample) - 4 - 2 * count * len(sample) // len(score)
        while limit > 0 and (least := np.partition(sample, limit)[limit]) > _NEVER:
            rows = (score >= least).nonzero()[0]
            if len(rows) >= count:
                return np.asarray(rows)
            limit -= 3 * (len(sample) - limit)
    return (score > _NEVER).nonzero()[0]
