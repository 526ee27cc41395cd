"""How nodes are scored: `spread` and `pack`, and the weights of the preferred terms.

A strategy follows `webhook.cluster.columns.Strategy`: one score per row, from that row, the demand and the view alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from webhook.cluster.columns import Columns, Demand, Floats, Rows, Strategy, View

WEIGHTS: Final = (100, 60, 36, 22, 13, 8, 5, 3, 2, 1)
"""Weights of the preferred terms, best node first."""


class Spread:
    """For replicas that should not share a node.

    The caller puts nodes with fewer pods of the same owner first. Then: most idle GPUs among those the pod can have
    (unallocated counts as idle where there are no metrics), then the lowest mean utilisation (the allocated part where
    there are no metrics).
    """

    peers_first = True

    def __call__(self, columns: Columns, rows: Rows, demand: Demand, view: View) -> Floats:
        free, capacity = _gpus(columns, rows, demand, view)
        idle = columns.idle[rows]
        idle = np.where(np.isnan(idle), free, np.minimum(idle, free))
        load = columns.utilisation[rows]
        allocated = 1 - free / np.maximum(capacity, 1)
        load = np.clip(np.where(np.isnan(load), allocated, load), 0, 1)
        # Idle GPUs are whole numbers, so half a point for the utilisation never outweighs one.
        return idle - load / 2


class Pack:
    """For everything else: the fullest node that fits."""

    peers_first = False

    def __call__(self, columns: Columns, rows: Rows, demand: Demand, view: View) -> Floats:
        free, capacity = _gpus(columns, rows, demand, view)
        cpu = columns.free["cpu"][rows] - demand.amount("cpu")
        return -(free - _asked(demand, view)) - cpu / np.maximum(columns.capacity["cpu"][rows], 1)


STRATEGIES: Final[dict[str, Strategy]] = {"spread": Spread(), "pack": Pack()}
"""By their names in the policy."""


def _asked(demand: Demand, view: View) -> int:
    return sum(amount for name, amount in demand.requests if name in view.gpus)


def _gpus(columns: Columns, rows: Rows, demand: Demand, view: View) -> tuple[Floats, Floats]:
    """Free and allocatable GPUs of the resources that the demand asks for."""
    names = [name for name, _ in demand.requests if name in view.gpus and name in columns.free]
    free = np.zeros(columns.free["cpu"][rows].shape)
    capacity = np.zeros_like(free)
    for name in names:
        free += columns.free[name][rows]
        capacity += columns.capacity[name][rows]
    return free, capacity
