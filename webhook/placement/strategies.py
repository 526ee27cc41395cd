"""How nodes are scored: `spread` and `pack`, and the weights of the preferred terms.

A strategy follows `webhook.cluster.columns.Strategy`: one score per row, from that row, the demand and the view alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from webhook.cluster.columns import Columns, Demand, Floats, Rows, Strategy, View
from webhook.placement.fragmentation import outlook

WEIGHTS: Final = (100, 35, 12, 8, 7, 6, 5, 4, 3, 2)
"""Weights of the preferred terms, best node first.

The scheduler scales NodeAffinity to 100 for the best feasible node and doubles it (plugins/nodeaffinity, weight 2): the
first is 130 points ahead of the second, and the second, where the first is full, 131 ahead of the third. A node that
has the pod's large image gets 100 points for it (ImageLocality), an emptier node up to 200 for LeastAllocated and
BalancedAllocation, in practice less than half of that. Falling more slowly (100, 60, 36 …: 80 points) lost the first
choice for one pod in six where a tenth of the nodes had the image, and for one in thirty where none had it; this loses
one in twenty and none. The rest only falls: it keeps a burst on ranked nodes when the first ones are taken.
"""

_FULLNESS: Final = 1 / 64
"""What a free GPU costs, against one that is lost to average demand. Small: it decides between nodes that are as good
otherwise, and alone while no demand was seen."""


class Spread:
    """For replicas that should not share a node.

    The caller puts nodes with fewer pods of the same owner first. Then: most idle GPUs among those the pod can have
    (unallocated counts as idle where there are no metrics), then the lowest mean utilisation (the allocated part where
    there are no metrics).
    """

    peers_first = True

    def __call__(self, columns: Columns, rows: Rows, demand: Demand, view: View) -> Floats:
        free, capacity = _gpus(columns, rows, demand, view)
        free = free / columns.sharing[rows]  # a slot of a GPU that four pods share is a quarter of one
        capacity = capacity / columns.sharing[rows]
        idle = columns.idle[rows]
        idle = np.where(np.isnan(idle), free, np.minimum(idle, free))
        load = columns.utilisation[rows]
        allocated = 1 - free / np.maximum(capacity, 1)
        load = np.minimum(np.maximum(np.where(np.isnan(load), allocated, load), 0), 1)
        # Idle GPUs are whole numbers, so half a point for the utilisation never outweighs one.
        return idle - load / 2


class Pack:
    """For everything else: the node that loses least for the demands seen lately (`fragmentation`), the fullest first
    among equals.

    Fullest is by free GPUs, and by free CPU as so many GPUs as it is there for: best-fit, as FGD's authors compare with.
    A score is minus what the node would lose, in GPUs of an average pod.
    """

    peers_first = False

    def __call__(self, columns: Columns, rows: Rows, demand: Demand, view: View) -> Floats:
        return -outlook(columns, view).cost(columns, rows, demand, _FULLNESS)


STRATEGIES: Final[dict[str, Strategy]] = {"spread": Spread(), "pack": Pack()}
"""By their names in the policy."""


def _gpus(columns: Columns, rows: Rows, demand: Demand, view: View) -> tuple[Floats, Floats]:
    """Free and allocatable GPUs of the resources that the demand asks for."""
    names = [name for name, _ in demand.requests if name in view.gpus and name in columns.free]
    free = np.zeros(columns.free["cpu"][rows].shape)
    capacity = np.zeros_like(free)
    for name in names:
        free += columns.free[name][rows]
        capacity += columns.capacity[name][rows]
    return free, capacity
