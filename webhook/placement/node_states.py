"""Numbers for the states of nodes: nodes with equal amounts, model and metrics share one.

Whether a pod fits, and what the node is worth to it, is worked out once for all nodes of a state, and not again for a node that
comes back to a state. Most clusters have few kinds of nodes and few sizes of pods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.journal import distinct
from webhook.cluster.node_table import Columns, Integers

_SPARE = 4096
_DEARER = 2  # a row by itself costs so many times what it costs among all
_SALT = np.int64(0x9E3779B97F4A7C15 - (1 << 64))


class States:
    """The number of each row's state."""

    def __init__(self) -> None:
        self.of_row: NDArray[np.int32] = np.zeros(0, np.int32)
        """The number of each row's state; as of the last `refresh`."""
        self.epoch = 0
        """Rises when states are numbered anew."""
        self._ids: dict[tuple[int, ...], int] = {}
        self._read: list[memoryview] = []
        """All that makes a state, one item at a time: for a row or two, as for most choices, a tenth of the time of arrays."""
        self._kind: tuple[int, int, bool] = (0, 0, False)
        self._read_to = -1

    @property
    def count(self) -> int:
        """Numbers below this are given out."""
        return len(self._ids)

    def refresh(self, columns: Columns) -> None:
        """Look again at the rows that changed."""
        kind = columns.size, len(columns.capacity), columns.observed
        changed = columns.changes.since(self._read_to) if kind == self._kind else None
        self._read_to = columns.changes.position
        if changed is None or len(changed) > columns.rows // _DEARER or len(self._ids) > 2 * columns.rows + _SPARE:
            self._kind = kind
            self._number_all(columns)
        elif len(changed):
            read = self._read
            for row in distinct(changed, columns.size).tolist():
                state = tuple([amounts[row] for amounts in read])
                self.of_row[row] = self._ids.setdefault(state, len(self._ids))

    def _number_all(self, columns: Columns) -> None:
        arrays: list[NDArray[Any]] = [*columns.free.values(), *columns.capacity.values(), columns.model]
        if columns.observed:  # numbers as their bits: what is not measured equals itself so
            use = (columns.sharing, columns.measured, columns.idle, columns.utilisation)
            arrays += [array.view(np.int64) for array in use]
        self._read = [array.data for array in arrays]
        amounts: Integers = np.array(arrays, np.int64)
        mixed = np.zeros(columns.size, np.int64)
        for array in amounts:
            mixed = (mixed ^ (mixed >> 29)) * _SALT + array
        order = np.argsort(mixed, kind="stable")
        new = np.ones(columns.size, bool)
        np.not_equal(mixed[order][1:], mixed[order][:-1], out=new[1:])
        self.of_row = np.empty(columns.size, np.int32)
        self.of_row[order] = np.cumsum(new) - 1
        of_states = amounts[:, order[new]]
        if np.array_equal(of_states[:, self.of_row], amounts):
            self._ids = {tuple(state): number for number, state in enumerate(of_states.T.tolist())}
        else:  # two states were mixed to the same number
            self._ids = {}
            numbers = [self._ids.setdefault(tuple(state), len(self._ids)) for state in amounts.T.tolist()]
            self.of_row = np.array(numbers, np.int32)
        self.epoch += 1


def states(columns: Columns) -> States:
    """Those of these columns, up to date. Kept beside them: to number 65,000 nodes takes 9 ms, 180 where no two are alike."""
    found = columns.spare.get(__name__)
    if found is None:
        found = columns.spare[__name__] = States()
    assert isinstance(found, States)
    found.refresh(columns)
    return found
