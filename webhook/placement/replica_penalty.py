"""What is taken off the score of a node that another replica fills (`webhook.cluster.replica_shares`).

The other replica fills the fullest node that a pod fits, and what it put there in the last tenth of a second is not known.
So the less room a node has, the more is taken off: each pod like this one that would no longer fit counts, up to `_ENOUGH`.
With two replicas in a burst 81 % of the pods went to their first choice before, and all but a few in a thousand do now. In
the model (`python -m bench.placement --burst 256 --replicas 2`) a tenth of the 8-GPU pods was refused; now it is as with one
replica.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from webhook.cluster.node_table import Columns, Demand, Floats, Rows
from webhook.cluster.replica_shares import OTHER_REPLICA, Shares

_ENOUGH: Final = 6
"""Pods like this one that still fit beside it: with so many there is no hurry."""


def replica_penalty(shares: Shares, columns: Columns, rows: Rows, demand: Demand, gpu: str | None) -> Floats:
    """By row; next to nothing where the node is this replica's. `gpu`: the resource of the GPUs that the pod asks for."""
    penalty: Floats = shares.penalty[rows]
    if gpu not in columns.free:
        return penalty
    missing = _ENOUGH + 1 - columns.free[gpu][rows] // demand.amount(gpu)
    return np.where(penalty >= OTHER_REPLICA, penalty + np.maximum(missing, 0), penalty)
