"""How much CPU pods without GPUs will leave on GPU nodes, where no taint keeps them away and nobody ranks nodes for them.

The scheduler spreads these pods: each goes to the node with the largest free part. If only GPU pods are packed, that is the node
that was kept whole, and its GPUs lose their CPU. So GPUs whose CPU will be gone are worth less, and are used while they have it.

What will come is guessed: pods without GPUs take as much CPU for each GPU that is free as they hold for each GPU that is taken.
Filled in from the top, it lowers the free part of CPU to one level on all nodes that such pods go to. Nodes that they go to have
the taints, conditions and readiness of a node where some are.

Source: pkg/scheduler/framework/plugins/noderesources (LeastAllocated). Memory is left out: nodes have more of it per GPU than
pods request.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.nodes.table import Columns, Floats, Integers, Rows

_FORESEEN: Final = 0.3
"""Most of the free CPU that may be foreseen to go. The level of what lies further ahead is near 0 on all nodes, and tells none
apart."""
_STEPS: Final = 20
_SAMPLED: Final = 4096
"""Maximum number of nodes from which the level is estimated: it need not be exact."""


class CpuLeft(NamedTuple):
    """The level: at most this part of a node's CPU will be free, on nodes with one of these statuses (`Columns.status`)."""

    part: float = 1.0
    statuses: NDArray[np.int32] = np.zeros(0, np.int32)

    def most(self, columns: Columns, rows: Rows) -> Floats:
        """By row, the most CPU that will be free."""
        part = np.where(np.isin(columns.status[rows], self.statuses), self.part, 1.0)
        most: Floats = part * columns.capacity["cpu"][rows]
        return most


def cpu_left(columns: Columns, capacity: Floats, free: Floats) -> CpuLeft:
    """The level for the nodes with GPUs. `capacity`, `free`: GPUs of each row, of all resources together."""
    rows = columns.rows
    roaming: Integers = columns.roaming[:rows]
    held = roaming[capacity > 0]
    if not held.any():
        return CpuLeft()
    status = columns.status[:rows]
    statuses = np.unique(status[(capacity > 0) & (roaming > 0)])
    open_to_them = (capacity > 0) & columns.alive[:rows] & np.isin(status, statuses)
    idle = float(np.maximum(free, 0)[open_to_them].sum())
    taken = float(capacity[open_to_them].sum()) - idle
    if taken <= 0:
        return CpuLeft()
    cpu, free_cpu = columns.capacity["cpu"][:rows][open_to_them], columns.free["cpu"][:rows][open_to_them]
    free_cpu = np.maximum(free_cpu, 0)
    part_taken = min(_FORESEEN, float(held.sum()) * idle / taken / max(float(free_cpu.sum()), 1.0))
    step = max(1, len(cpu) // _SAMPLED)
    return CpuLeft(_level(cpu[::step], free_cpu[::step], part_taken), statuses)


def _level(capacity: Integers, free: Integers, part_taken: float) -> float:
    """The part of each capacity above which all that is free sums up to `part_taken` of all that is free."""
    wanted, low, high = part_taken * float(free.sum()), 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        above = float(np.maximum(free - middle * capacity, 0).sum())
        low, high = (middle, high) if above > wanted else (low, middle)
    return high
