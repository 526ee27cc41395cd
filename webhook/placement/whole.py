"""Whole nodes: those that have as many free GPUs as the largest nodes have in all.

Only they can take the largest pods. What they are worth to the demands seen lately is in `fragmentation`; here is whether
large pods were seen at all (they may still come), and how many whole nodes are left.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node_table import Columns, Demand, Rows, View

_SELDOM: Final = 1 / 20
"""Of the GPUs that were asked for lately: with less of them for large pods, these are as good as unseen; with twice as many,
the demands that were seen keep nodes whole."""
_KEPT: Final = 20
"""One in so many of the largest nodes stays whole, rather than that replicas are kept apart."""


class Whole:
    """Of one GPU resource, for one view."""

    def __init__(self, columns: Columns, view: View, gpu: str) -> None:
        self.gpu = gpu
        capacity = columns.capacity[gpu][: columns.rows] * (columns.sharing[: columns.rows] <= 1)
        self.size = max(1, int(capacity.max(initial=0)))
        """What the largest nodes have: a row with so much free is a whole node."""
        self._kept = int((capacity >= self.size).sum()) // _KEPT
        asked: dict[int, float] = {}
        for popular in view.popular:
            amount = popular.demand.amount(gpu)
            asked[amount] = asked.get(amount, 0.0) + amount * popular.share
        total, least = sum(asked.values()), min(filter(None, asked), default=0)
        large = sum(share for amount, share in asked.items() if 2 * amount > self.size)
        larger = sum(2 * amount / self.size * share for amount, share in asked.items() if amount > least)
        seldom = min(max(2 - large / (_SELDOM * total), 0.0), 1.0) if total else 0.0
        self.unseen = seldom * larger / total if total else 0.0
        """What it costs to break a whole node, in GPUs of an average pod, for the large pods that may still come: where
        hardly any were seen lately, nobody else keeps nodes whole. Worse, a node with four free GPUs is kept for the pods
        of four that were seen, and whole ones are broken in its place. The larger such pieces are, the more it costs."""

    def among(self, columns: Columns, rows: Rows) -> NDArray[np.bool_]:
        """Which of `rows` are whole nodes."""
        return (columns.free[self.gpu][rows] >= self.size) & (columns.sharing[rows] <= 1)

    def scarce(self, columns: Columns) -> bool:
        """Whether as few are left as should stay whole. Nodes that nobody may use now count as well."""
        return self._kept > 0 and int(np.count_nonzero(self.among(columns, slice(0, columns.rows)))) <= self._kept


def whole_nodes(columns: Columns, view: View, demand: Demand) -> list[Whole]:
    """Those of the GPU resources that are asked for. Kept beside the view: that saves 26 µs of each score."""
    made: dict[str, Whole] = view.spare.setdefault(__name__, {})
    found = []
    for name, _ in demand.requests:
        if name in view.gpus and name in columns.free:
            if name not in made:
                made[name] = Whole(columns, view, name)
            found.append(made[name])
    return found
