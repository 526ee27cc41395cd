"""What the shape of a pod says about each node, kept up to date by the nodes that changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Rows
from webhook.cluster.journal import distinct
from webhook.cluster.nodes import Nodes
from webhook.placement.constraints import Mask, matches
from webhook.placement.filters import Filter


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
        rows: Rows = slice(0, nodes.columns.size) if changed is None else distinct(changed, nodes.columns.size)
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
