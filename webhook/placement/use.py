"""What GPU metrics say against nodes, whatever the strategy.

A GPU that is busy although no pod was given it, or hot, or sick, does not count as free (as far as the policy says: `busy`,
`hot` and `sick` of `gpuMetrics`). Metrics do not say which pod has which GPU. So pods are taken to have the busy ones first,
and what is hot or sick and not busy is taken to be free; a GPU that the device plugin withdrew is not offered any more, and is
the hot or sick one.

Which of its free GPUs a node gives to a pod is not ours to say. So a node where all of them are fit for use comes first, then
one where enough are, then the others: they are last, and not refused, for the scheduler would take them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node_table import Columns, Demand, Floats


def usable_gpus(columns: Columns, rows: NDArray[np.intp], gpus: tuple[str, ...], gpu: str) -> Floats:
    """By row, how many of the free ones of the resource `gpu` are fit for use. `gpus`: all resources of GPUs."""
    sharing = columns.sharing[rows]
    capacity, allocated = np.zeros(len(rows)), np.zeros(len(rows))
    for name in gpus:
        if name in columns.free:
            capacity += columns.capacity[name][rows] / sharing
            allocated += columns.capacity[name][rows] - columns.free[name][rows]
    withdrawn = np.maximum(columns.known[rows] - capacity, 0)
    unfit = np.maximum(columns.busy[rows] - np.minimum(allocated, capacity), 0)
    unfit += np.maximum(columns.avoid[rows] - withdrawn, 0)
    usable: Floats = columns.free[gpu][rows] - unfit * sharing
    return usable


def use_tiers(
    columns: Columns, rows: NDArray[np.intp], demand: Demand, gpus: tuple[str, ...], gpu: str
) -> list[NDArray[np.int8] | Floats]:
    """What comes before any score: whether free GPUs are fit for use, and how much GPUs are used that pods share."""
    usable = usable_gpus(columns, rows, gpus, gpu)
    unfit = (usable < columns.free[gpu][rows]).astype(np.int8) + (usable < demand.amount(gpu))
    return [unfit, np.where(columns.sharing[rows] > 1, columns.utilisation[rows], 0)]
