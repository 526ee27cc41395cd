"""Numbers the states of nodes: nodes with equal amounts, GPU model and metrics have the same state.

Whether a pod fits, and the score of a node, are computed once per state, also for a node that returns to an earlier
state. Most clusters have few kinds of nodes and few sizes of pods.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node_table import Columns

_SPARE = 4096
_CHANGED_ROW_COST = 2
"""The cost to number the state of one changed row, compared with its part of the cost to number all."""


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
        amounts += [columns.devices, columns.sharing, columns.measured, columns.idle, columns.utilisation]
        ids = self._ids
        if (
            shape != self._shape
            or changed is None
            or len(changed) > columns.rows // _CHANGED_ROW_COST
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
