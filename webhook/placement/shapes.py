"""What the shape of a pod says about each node, kept up to date by the nodes that changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Rows
from webhook.cluster.journal import Journal, distinct
from webhook.cluster.nodes import Nodes
from webhook.placement.constraints import Mask, matches
from webhook.placement.filters import Filter

_FEW = 48
"""So many rows are looked at one at a time: for each, arrays would be read at a dozen places."""


class Shape:
    """Where pods of one shape may go: the static filter over all rows, and how much the user wishes for each."""

    def __init__(self, static: Filter) -> None:
        self.filter = static
        self.mask: Mask = np.zeros(0, bool)
        self.wish: NDArray[np.int64] | None = None
        """Sum of the weights of the user's own preferred terms; None where there are none."""
        self._named: Mask = self.mask
        """What of the mask depends on names and labels, as `wish` does."""
        self._read_to = self._relabelled_to = -1

    def refresh(self, nodes: Nodes) -> None:
        position = nodes.changes.position
        if position == self._read_to:
            return
        if len(self.mask) != nodes.columns.size:
            self._read_to = self._relabelled_to = -1
            self.mask, self._named = np.zeros(nodes.columns.size, bool), np.zeros(nodes.columns.size, bool)
            self.wish = np.zeros(nodes.columns.size, np.int64) if self.filter.constraints.preferred else None
        if self._relabelled_to != nodes.relabelled.position:
            self._look_at_labels(nodes, _rows(nodes.relabelled, self._relabelled_to, nodes))
            self._relabelled_to = nodes.relabelled.position
        changed = nodes.changes.since(self._read_to)
        if changed is not None and len(changed) <= _FEW:
            up, named = self.filter.singly(nodes), self._named.item
            for row in set(changed):
                self.mask[row] = named(row) and up(row)
        else:
            rows = _rows(nodes.changes, self._read_to, nodes)
            self.mask[rows] = self._named[rows] & self.filter.up(nodes, rows)
        self._read_to = position

    def _look_at_labels(self, nodes: Nodes, rows: Rows) -> None:
        self._named[rows] = self.filter.named(nodes, rows)
        if self.wish is not None:
            wish = np.zeros(nodes.order[rows].shape, np.int64)
            for term, weight in self.filter.constraints.preferred:
                wish += weight * matches(term, nodes, rows)
            self.wish[rows] = wish


def _rows(journal: Journal, position: int, nodes: Nodes) -> Rows:
    """The rows that changed since; all where that is no longer known."""
    changed = journal.since(position) if position >= 0 else None
    return slice(0, nodes.columns.size) if changed is None else distinct(changed, nodes.columns.size)
