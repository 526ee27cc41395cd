"""Filter and score: the nodes that pods of one shape fit, and what each is worth to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.journal import distinct
from webhook.cluster.node_table import Columns, Demand, Floats, Rows, Strategy, View, longer
from webhook.cluster.nodes import Nodes
from webhook.cluster.replicas import taken_off
from webhook.placement.constraints import Mask, matches
from webhook.placement.filters import Filter
from webhook.placement.node_states import States, states

NEVER = -np.inf
_DEARER = 4  # a row computed alone costs so many times what it costs among all


class NodeScores:
    """The nodes for one filter, demand and strategy, as of the last `refresh`."""

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
        self.rows: NDArray[np.intp] = np.zeros(0, np.intp)
        """The rows that the pod selects by their labels, in the order of names."""
        self.score: Floats = np.zeros(0)
        """One for each of `rows`; -inf where the pod does not fit, or may not go now."""
        self.preference: NDArray[np.int64] | None = None
        """For each of `rows`, the weights of the preferred terms that it meets; None where there are no such terms."""
        self.reluctance: NDArray[np.int8] | None = None
        """For each of `rows`, how little the node is to be used (`Filter.reluctance`); None where that is 0 for all."""
        self._by_name: NDArray[np.intp] = np.zeros(0, np.intp)
        self._at: NDArray[np.intp] = np.zeros(0, np.intp)
        """By row, where in `rows` it stands."""
        self._selected: Mask = np.zeros(0, bool)
        self._open: Mask = np.zeros(0, bool)
        """By row, whether a pod that selects it may go there now. Nodes are cordoned more often than labelled: that `rows` stay
        the same then saves 1 ms among 65,000."""
        self._reluctance: NDArray[np.int8] = np.zeros(0, np.int8)
        self._weights: NDArray[np.int64] = np.zeros(0, np.int64)
        self._filtered_to = self._scored_to = -1
        self._values: Floats = np.zeros(0)
        """By state of nodes, the score; NaN where it was not yet worked out. Most choices find theirs here: that saves 60 µs of
        it, and 28 ms of the first one among 65,000 nodes of 84 states."""
        self._valued: tuple[object, ...] = ()

    @property
    def kept_bytes(self) -> int:
        """What is kept of this shape."""
        by_row = self._at, self._selected, self._open, self._reluctance, self._weights
        return int(sum([array.nbytes for array in (self.rows, self.score, self._values, *by_row)]) + self._filter_bytes)

    @property
    def passing(self) -> int:
        """To how many nodes the pod may go, whatever is free."""
        return int(np.count_nonzero(self._open[self.rows]))

    def refresh(self, nodes: Nodes, view: View, *, burst: bool = False) -> None:
        """Filter and score again what changed since the last time. `burst`: pods are on their way."""
        columns, changes = nodes.columns, nodes.columns.changes
        known = states(columns)
        valued = known.epoch, self.strategy.sees(view), nodes.replicas, burst
        same_rows = self._filter(nodes)
        changed = changes.since(self._scored_to) if same_rows and valued == self._valued else None
        if valued != self._valued:
            self._valued, self._values = valued, np.zeros(0)
        self._scored_to = changes.position
        if known.count > len(self._values):
            self._values = longer(self._values, 2 * known.count, np.nan)
        if changed is None or len(changed) > len(self.rows) // _DEARER:
            self.score = self._scored(nodes, known, self.rows, view)
        elif len(changed):
            rows = distinct(changed)
            rows = rows[self._selected[rows]]
            self.score[self._at[rows]] = self._scored(nodes, known, rows, view)

    def _filter(self, nodes: Nodes) -> bool:
        """Look at the nodes that changed. False where `rows` are others than before."""
        size, by_name = nodes.columns.size, nodes.by_name()
        changed = nodes.changes.since(self._filtered_to) if by_name is self._by_name else None
        if changed is not None and not changed:
            return True
        self._filtered_to = nodes.changes.position
        rows: Rows = slice(0, size) if changed is None else distinct(changed)
        self._selected, self._open = longer(self._selected, size), longer(self._open, size)
        self._reluctance = longer(self._reluctance, size)
        selected = self.filter.selected(nodes, rows)
        same = changed is not None and np.array_equal(selected, self._selected[rows])
        self._selected[rows] = selected
        self._open[rows] = self.filter.open(nodes, rows)
        self._reluctance[rows] = self.filter.reluctance(nodes, rows)
        if not same:
            self._by_name, self.rows = by_name, by_name[self._selected[by_name]]
            self._at = np.zeros(size, np.intp)
            self._at[self.rows] = np.arange(len(self.rows))
        self.reluctance = self._reluctance[self.rows] if self._reluctance.any() else None
        if preferred := self.filter.constraints.preferred:
            self._weights = longer(self._weights, size)
            self._weights[rows] = sum([weight * matches(term, nodes, rows) for term, weight in preferred])
            self.preference = self._weights[self.rows]
        return same

    def _scored(self, nodes: Nodes, known: States, rows: NDArray[np.intp], view: View) -> Floats:
        """Scores of selected rows: for each state worked out once, on one of its rows."""
        numbers = known.of_row[rows]
        scores: Floats = self._values[numbers]
        unknown = np.isnan(scores)
        if unknown.any():
            row_of = np.full(known.count, -1)
            row_of[numbers[unknown]] = rows[unknown]
            which = (row_of >= 0).nonzero()[0]
            self._values[which] = self._worked_out(nodes.columns, row_of[which], view)
            scores = self._values[numbers]
        scores = np.where(self._open[rows], scores, NEVER)
        if len(nodes.replicas) > 1:
            scores = scores - taken_off(nodes.columns, rows, self.demand, self.gpu, burst=bool(self._valued[-1]))
        return scores

    def _worked_out(self, columns: Columns, rows: NDArray[np.intp], view: View) -> Floats:
        scores = self.strategy(columns, rows, self.demand, view)
        for resource, amount in self._needs.items():
            free = columns.free.get(resource)
            scores = np.where(free[rows] >= amount, scores, NEVER) if free is not None else np.full(len(rows), NEVER)
        return scores


def smallest(count: int, keys: list[NDArray[Any]], left: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
    """Where the `count` smallest of `left` (None: of all) are, in order: by the first key, equal ones by the next, then by
    where they stand."""
    sure: list[NDArray[np.intp]] = []
    for key in keys:
        values = key if left is None else key[left]
        if len(values) <= count:
            break
        limit = values.min()
        equal = (values == limit).nonzero()[0]
        if len(equal) < count:
            limit = np.partition(values, count - 1)[count - 1]
            below = (values < limit).nonzero()[0]
            sure.append(below if left is None else left[below])
            count -= len(below)
            equal = (values == limit).nonzero()[0]
        left = equal if left is None else left[equal]
    else:
        if not sure and left is not None:
            return left[:count]
    left = np.arange(len(keys[0])) if left is None else left
    chosen = np.concatenate([*sure, left[:count]])
    chosen.sort()
    return chosen[np.lexsort([key[chosen] for key in keys[::-1]])]
