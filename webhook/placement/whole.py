"""Whole nodes: nodes with as many free GPUs as the largest nodes have in all. Nodes with shared GPUs are not whole nodes.

Only whole nodes can take the largest pods, which may come although none runs. So `pack` uses none of them if
the pod fits on a partly used node.
"""

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node_table import Columns, Rows, View
from webhook.kube.pod_requests import Demand


class Whole:
    """The whole nodes of one GPU resource, for one view."""

    def __init__(self, columns: Columns, gpu: str) -> None:
        self.gpu = gpu
        capacity = np.where(columns.sharing == 1, columns.capacity[gpu], 0)
        self.size = max(1, int(capacity.max(initial=0)))
        """GPUs of the largest nodes: a row with so many free is a whole node."""

    def among(self, columns: Columns, rows: Rows) -> NDArray[np.bool_]:
        """Which of `rows` are whole nodes."""
        mask: NDArray[np.bool_] = (columns.free[self.gpu][rows] >= self.size) & (columns.sharing[rows] == 1)
        return mask

    def broken(self, columns: Columns, rows: Rows, demand: Demand) -> NDArray[np.bool_]:
        """Which of `rows` are whole nodes that the demand would not fill.

        Nodes with shared GPUs count as well: no pod is sent to shared GPUs only to keep a node whole.
        """
        fuller: NDArray[np.bool_] = columns.free[self.gpu][rows] > demand.amount(self.gpu)
        return (self.among(columns, rows) & fuller) | (columns.sharing[rows] > 1)


def whole_nodes(columns: Columns, view: View, demand: Demand) -> list[Whole]:
    """The whole nodes of each requested GPU resource. Made once for a view, so that all its scores agree."""
    cached: dict[str, Whole] = view.cache.setdefault(__name__, {})
    kinds = []
    for name, _ in demand.requests:
        if name in view.gpus and name in columns.free:
            if name not in cached:
                cached[name] = Whole(columns, name)
            kinds.append(cached[name])
    return kinds
