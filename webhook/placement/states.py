"""Numbers for what nodes have: nodes with the same free and allocatable amounts and the same model share one.

What a strategy works out of these alone is worked out once for all nodes that are alike, and again for a node that comes
back to what it was. Most clusters have few kinds of nodes and few sizes of pods.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Columns, Integers
from webhook.cluster.journal import distinct

_SPARE: Final = 4096
_DEARER: Final = 2  # a row by itself costs so many times what it costs among all
_SALT: Final = np.int64(0x9E3779B97F4A7C15 - (1 << 64))
_KEPT: Final = 4


class States:
    """The number of each row's state, and the amounts of each state."""

    def __init__(self, columns: Columns, resources: tuple[str, ...]) -> None:
        self.resources = resources
        self.of_row: NDArray[np.int32] = np.zeros(0, np.int32)
        """The number of each row's state; as of the last `refresh`."""
        self.amounts: Integers = np.zeros((2 * len(resources) + 1, 0), np.int64)
        """Free amounts, allocatable amounts, and the model, by state. There is room for more states than there are."""
        self.epoch = 0
        """Rises when states are numbered anew."""
        self._ids: dict[tuple[int, ...], int] = {}
        self.read_to = -1
        """The position in the journal of changes up to which this is true."""

    def refresh(self, columns: Columns) -> None:
        """Look again at the rows that changed."""
        changes = columns.changes
        if changes.position == self.read_to and len(self.of_row) == columns.size:
            return
        changed = changes.since(self.read_to) if len(self.of_row) == columns.size else None
        self.read_to = changes.position
        if changed is None or len(self._ids) > 2 * columns.rows + _SPARE:
            self._number_all(columns)
        else:
            rows = distinct(changed, columns.size)
            if len(rows) > columns.rows // _DEARER:
                self._number_all(columns)
            else:
                amounts = [array[rows].tolist() for array in self._arrays(columns)]
                self.of_row[rows] = [self._number(state) for state in zip(*amounts, strict=True)]

    def _number(self, state: tuple[int, ...]) -> int:
        number = self._ids.get(state)
        if number is None:
            number = self._ids[state] = len(self._ids)
            if number >= self.amounts.shape[1]:
                self.amounts = np.concatenate([self.amounts, np.zeros_like(self.amounts)], axis=1)
            self.amounts[:, number] = state
        return number

    def _arrays(self, columns: Columns) -> list[NDArray[np.int64] | NDArray[np.int32]]:
        free = [columns.free[name] for name in self.resources]
        return [*free, *[columns.capacity[name] for name in self.resources], columns.model]

    def _number_all(self, columns: Columns) -> None:
        amounts: Integers = np.array(self._arrays(columns), np.int64)
        mixed = np.zeros(columns.size, np.int64)
        for array in amounts:
            mixed = (mixed ^ (mixed >> 29)) * _SALT + array
        order = np.argsort(mixed, kind="stable")
        new = np.ones(columns.size, bool)
        np.not_equal(mixed[order][1:], mixed[order][:-1], out=new[1:])
        self.of_row = np.empty(columns.size, np.int32)
        self.of_row[order] = np.cumsum(new) - 1
        distinct = amounts[:, order[new]]
        if not np.array_equal(distinct[:, self.of_row], amounts):  # two states were mixed to the same number
            ids: dict[tuple[int, ...], int] = {}
            self.of_row = np.array([ids.setdefault(tuple(s), len(ids)) for s in amounts.T.tolist()], np.int32)
            distinct = np.array(list(ids), np.int64).T
        self._ids = {tuple(state): number for number, state in enumerate(distinct.T.tolist())}
        self.amounts = np.concatenate([distinct, np.zeros_like(distinct)], axis=1)
        self.epoch += 1


def states(columns: Columns, resources: tuple[str, ...]) -> States:
    """Those of these resources. Kept beside the columns, few of them: numbering 65,000 nodes anew takes 40 ms."""
    kept: dict[tuple[str, ...], States] = columns.spare.setdefault(__name__, {})
    found = kept.pop(resources, None)
    if found is None:
        if len(kept) >= _KEPT:
            del kept[next(iter(kept))]
        found = States(columns, resources)
    kept[resources] = found
    return found
