"""The best rows of all, without a look at all: each block of 64 rows knows its best one.

A changed row costs one block, and the k best rows of all are in the k blocks whose best rows are best, however many tie.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Floats

BLOCK = 64  # divides the size of the columns, which is a power of two from 64 upwards


class Blocks:
    """Of `size` rows."""

    def __init__(self, size: int) -> None:
        self.stale: NDArray[np.bool_] = np.ones(size // BLOCK, bool)
        """Blocks in which a row changed: their best one is to be found again."""
        self._best: Floats = np.full(size // BLOCK, -np.inf)
        self._first: Floats = np.full(size // BLOCK, np.inf)

    def near(self, score: Floats, order: Floats, count: int) -> NDArray[np.intp]:
        """Rows among which the `count` best ones are, all of which fit."""
        self._index(score, order, self.stale.nonzero()[0])
        blocks = np.lexsort((self._first, -self._best))[:count]
        least = self._best[blocks[-1]] if len(blocks) == count else -np.inf
        scores = score.reshape(-1, BLOCK)[blocks].ravel()
        among = (scores >= least if least > -np.inf else scores > -np.inf).nonzero()[0]
        rows: NDArray[np.intp] = blocks[among // BLOCK] * BLOCK + among % BLOCK
        return rows

    def _index(self, score: Floats, order: Floats, blocks: NDArray[np.intp]) -> None:
        """Find the best row of these blocks again: its score, and its place in the order of nodes."""
        scores = score.reshape(-1, BLOCK)[blocks]
        best = scores.max(axis=1)
        self._best[blocks] = best
        orders = order.reshape(-1, BLOCK)[blocks]
        self._first[blocks] = np.where(scores == best[:, None], orders, np.inf).min(axis=1)
        self.stale[blocks] = False
