"""Filters and scores nodes for the pods of one signature.

Numbers the states of nodes: nodes with equal amounts, GPU model and metrics have the same state.

Whether a pod fits, and the score of a node, are computed once per state, also for a node that returns to an earlier
state. Most clusters have few kinds of nodes and few sizes of pods.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from webhook.nodes.nodes import Nodes
from webhook.nodes.popular import Strategy, View
from webhook.nodes.siblings import sibling_penalty
from webhook.nodes.table import Columns, Floats, Rows, distinct, longer
from webhook.placement.constraints import Mask, matches
from webhook.placement.devices import UNDECIDED, found_devices
from webhook.placement.feasible import Feasible

_SPARE = 4096
_NUMBERED_ROW_COST = 2
"""The cost to number the state of one changed row, compared with its part of the cost to number all."""
NEVER = -np.inf
DEVICE_LEFT = 1.0
"""What a device costs of which a part stays free, in GPUs of an average pod: fuller devices first."""
_CHANGED_ROW_COST = 4
"""The cost to score one changed row, compared with its part of the cost to score all rows."""


class States:
    """The number of the state of each row."""

    def __init__(self) -> None:
        self.of_row: NDArray[np.int32] = np.zeros(0, np.int32)
        """State numbers as of the last `refresh`."""
        self.epoch = 0
        """Rises when all states are numbered again."""
        self._ids: dict[tuple[float, ...], int] = {}
        self._shape: tuple[int, int] = (0, 0)
        """Number of rows and resources in the columns that the states were read from."""
        self._read_to = 0

    @property
    def count(self) -> int:
        """Number of states; their numbers are below it."""
        return len(self._ids)

    def refresh(self, columns: Columns) -> None:
        """Number the states of rows that changed."""
        shape = columns.size, len(columns.capacity)
        changed = columns.changes.since(self._read_to)
        self._read_to = columns.changes.position
        amounts: list[NDArray[Any]] = [*columns.free.values(), *columns.capacity.values(), columns.model]
        amounts += [columns.devices, columns.one, columns.sharing, columns.measured, columns.idle, columns.utilisation]
        ids = self._ids
        if (
            shape != self._shape
            or changed is None
            or len(changed) > columns.rows // _NUMBERED_ROW_COST
            or len(ids) > 2 * columns.rows + _SPARE
        ):
            ids.clear()
            states = zip(*[amount.tolist() for amount in amounts], strict=True)
            self.of_row = np.array([ids.setdefault(state, len(ids)) for state in states], np.int32)
            self._shape, self.epoch = shape, self.epoch + 1
        else:
            for row in set(changed):
                state = tuple([amount.item(row) for amount in amounts])
                self.of_row[row] = ids.setdefault(state, len(ids))


def states(columns: Columns) -> States:
    """The states of these columns, up to date. Cached in the columns: to number 65,000 nodes takes 100 ms."""
    cached = columns.cache.get(__name__)
    if cached is None:
        cached = columns.cache[__name__] = States()
    assert isinstance(cached, States)
    cached.refresh(columns)
    return cached


class NodeScores:
    """The filtered nodes and their scores for one judgement and strategy, as of the last `refresh`."""

    def __init__(self, judgement: Feasible, strategy: Strategy, gpu: str | None, filter_bytes: int = 0) -> None:
        self.judgement = judgement
        self.pod_requests = judgement.pod_requests
        self.strategy = strategy
        self.gpu = gpu
        """The GPU resource that the pod requests; None if it requests none."""
        self._filter_bytes = filter_bytes
        self.rows: NDArray[np.intp] = np.zeros(0, np.intp)
        """The rows that the pod selects by labels, in the order of node names."""
        self.score: Floats = np.zeros(0)
        """The score of each of `rows`; -inf if the pod does not fit, or may not go there now."""
        self.preference: NDArray[np.int64] | None = None
        """For each of `rows`, the sum of the weights of the preferred terms that it matches; None without preferred terms."""
        self.penalty: NDArray[np.int8] | None = None
        """The `Feasible.penalty` of each of `rows`; None if all are 0."""
        self.alternatives: Floats | None = None
        """For each of `rows`, which alternatives of the pod's claims are free there, the most wanted ones 0; None without
        devices."""
        self.spoiled: Floats | None = None
        """For each of `rows`, how many devices it would take whole that others could have in parts; None without devices."""
        self._by_name: NDArray[np.intp] = np.zeros(0, np.intp)
        self.index: NDArray[np.intp] = np.zeros(0, np.intp)
        """By row, its index in `rows`; their number for those that are not among them."""
        self._selected: Mask = np.zeros(0, bool)
        self._open: Mask = np.zeros(0, bool)
        """By row, whether the pod may go there now if it selects it. Kept apart from `_selected` because nodes are cordoned
        more often than labelled: that `rows` stay the same saves 1 ms at 65,000 nodes."""
        self._penalty: NDArray[np.int8] = np.zeros(0, np.int8)
        self._weights: NDArray[np.int64] = np.zeros(0, np.int64)
        self._filtered_to = self._scored_to = -1
        self._state_scores: Floats = np.zeros(0)
        """Scores by number of a node state; NaN if not yet computed. Most scores are found here: this saves 60 µs of each
        choice, and 28 ms of the first one at 65,000 nodes with 84 states."""
        self._state_ranks: Floats = np.zeros(0)
        self._state_spoiled: Floats = np.zeros(0)
        """The same for `alternatives` and for `spoiled`."""
        self._score_key: tuple[object, ...] = ()
        """What the scores depend on besides the columns. If it changes, all are computed again."""

    @property
    def kept_bytes(self) -> int:
        """The memory that is kept for this pod signature, in bytes."""
        by_row: list[NDArray[Any]] = [self.index, self._selected, self._open, self._penalty, self._weights]
        return sum(
            [
                array.nbytes
                for array in (
                    self.rows,
                    self.score,
                    self._state_scores,
                    self._state_ranks,
                    self._state_spoiled,
                    *by_row,
                )
            ],
            self._filter_bytes,
        )

    @property
    def undecided(self) -> bool:
        """Whether it cannot be told of some node if it has devices for the pod."""
        return self.alternatives is not None and bool((self.alternatives == UNDECIDED).any())

    def refresh(self, nodes: Nodes, view: View, *, burst: bool = False) -> None:
        """Filter and score again the rows that changed. `burst`: see `Ledger.burst`."""
        changes, known = nodes.columns.changes, states(nodes.columns)
        key = known.epoch, self.strategy.score_key(view), nodes.siblings, burst
        same_rows = self._filter(nodes)
        changed = changes.since(self._scored_to) if same_rows and key == self._score_key else None
        self._scored_to = changes.position
        if key != self._score_key:
            self._score_key, self._state_scores = key, np.zeros(0)
        if known.count > len(self._state_scores):
            self._state_scores = longer(self._state_scores, 2 * known.count, np.nan)
            self._state_ranks = longer(self._state_ranks, 2 * known.count)
            self._state_spoiled = longer(self._state_spoiled, 2 * known.count)
        if changed is None or len(changed) > len(self.rows) // _CHANGED_ROW_COST:
            self.score = self._scores_of(nodes, known, self.rows, view, burst=burst)
        elif len(changed):
            rows = distinct(changed)
            rows = rows[self._selected[rows]]
            self.score[self.index[rows]] = self._scores_of(nodes, known, rows, view, burst=burst)
        if self.pod_requests.devices:
            numbers = known.of_row[self.rows]
            self.alternatives, self.spoiled = self._state_ranks[numbers], self._state_spoiled[numbers]

    def _filter(self, nodes: Nodes) -> bool:
        """Filter the nodes that changed. Returns whether `rows` are the same as before."""
        size, by_name = nodes.columns.size, nodes.by_name()
        changed = nodes.changes.since(self._filtered_to) if by_name is self._by_name else None
        if changed is not None and not changed:
            return True
        self._filtered_to = nodes.changes.position
        rows: Rows = slice(0, size) if changed is None else distinct(changed)
        self._selected, self._open = longer(self._selected, size), longer(self._open, size)
        self._penalty = longer(self._penalty, size)
        selected = self.judgement.selected(nodes, rows)
        same = changed is not None and np.array_equal(selected, self._selected[rows])
        self._selected[rows] = selected
        self._open[rows] = self.judgement.open(nodes, rows)
        self._penalty[rows] = self.judgement.penalty(nodes, rows)
        if not same:
            self._by_name, self.rows = by_name, by_name[self._selected[by_name]]
            self.index = np.full(size, len(self.rows))
            self.index[self.rows] = np.arange(len(self.rows))
        self.penalty = self._penalty[self.rows] if self._penalty.any() else None
        if preferred := self.judgement.constraints.preferred:
            self._weights = longer(self._weights, size)
            self._weights[rows] = sum([weight * matches(term, nodes, rows) for term, weight in preferred])
            self.preference = self._weights[self.rows]
        return same

    def _scores_of(self, nodes: Nodes, known: States, rows: NDArray[np.intp], view: View, *, burst: bool) -> Floats:
        """Scores of selected rows. The score of a state is computed once, on one of its rows."""
        numbers = known.of_row[rows]
        scores: Floats = self._state_scores[numbers]
        unknown = np.isnan(scores).nonzero()[0]
        if len(unknown):
            row_of = np.full(known.count, -1)
            row_of[numbers[unknown]] = rows[unknown]
            new = (row_of >= 0).nonzero()[0]
            self._state_scores[new] = self._computed(nodes, row_of[new], new, view)
            scores = self._state_scores[numbers]
        scores[~self._open[rows]] = NEVER
        if len(nodes.siblings) > 1:
            scores -= sibling_penalty(nodes.columns, rows, self.pod_requests, self.gpu, burst=burst)
        return scores

    def _computed(self, nodes: Nodes, rows: NDArray[np.intp], numbers: NDArray[np.intp], view: View) -> Floats:
        """The strategy's scores of rows, which have the states `numbers`; -inf if the pod does not fit."""
        columns = nodes.columns
        scores = self.strategy(columns, rows, self.pod_requests, view)
        if self.pod_requests.devices:
            found = found_devices(nodes.devices, nodes.devices.states, columns.devices[rows], self.pod_requests.devices)
            self._state_ranks[numbers], self._state_spoiled[numbers] = found.ranks, found.spoiled
            scores = np.where(found.ranks >= 0, scores - DEVICE_LEFT * found.left, NEVER)
        return np.where(self.judgement.room(nodes, rows, columns.free), scores, NEVER)
