"""How nodes are scored: the strategies `apart`, `spread` and `pack`, and the weights of the preferred terms.

A strategy implements `webhook.cluster.node_table.Strategy`: one score per row, from that row, the demand and the view alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from webhook.cluster.node_table import LAST, Columns, Demand, Floats, Rows, Strategy, View
from webhook.placement.fragmentation import outlook
from webhook.placement.whole import whole_nodes

WEIGHTS: Final = (100, 35, 12, 8, 7, 6, 5, 4, 3, 2)
"""Weights of the preferred terms, best node first.

The scheduler scales NodeAffinity to 100 for the best feasible node and doubles it (plugins/nodeaffinity, weight 2): the
first is 130 points ahead of the second, and the second, where the first is full, 131 ahead of the third. A node that
has the pod's large image gets 100 points for it (ImageLocality), an emptier node up to 200 for LeastAllocated and
BalancedAllocation, in practice less than half of that. Falling more slowly (100, 60, 36 …: 80 points) lost the first
choice for one pod in six where a tenth of the nodes had the image, and for one in thirty where none had it; this loses
one in twenty and none. The rest only falls: it keeps a burst on ranked nodes when the first ones are taken.
"""


class Spread:
    """For replicas that should not share a node, on a cluster that needs no whole nodes for large pods: else see `Apart`.

    The caller puts nodes with fewer pods of the same owner first. Then: most idle GPUs (a GPU that is not measured and not
    allocated counts as idle), then the lowest mean utilisation (without metrics, the allocated part).
    """

    meaning = "away from the owner's other pods, to the emptiest and idlest node"
    peers_first = True
    spares_whole = False

    def __call__(self, columns: Columns, rows: Rows, demand: Demand, view: View) -> Floats:
        free = np.zeros(columns.alive[rows].shape)
        capacity = np.zeros_like(free)
        for name, _ in demand.requests:
            if name in view.gpus and name in columns.free:
                free += (
                    columns.free[name][rows] / columns.sharing[rows]
                )  # a slot of a GPU that four share is a quarter of it
                capacity += columns.capacity[name][rows] / columns.sharing[rows]
        measured = columns.measured[rows]
        unknown = np.maximum(np.minimum(free, capacity - measured), 0)
        idle = np.minimum(columns.idle[rows] + unknown, free)  # as `utilisation.idle_gpus`, of those that are free
        load = np.where(measured > 0, columns.utilisation[rows], 1 - free / np.maximum(capacity, 1))
        # Idle GPUs are whole numbers, so half a point for the utilisation never outweighs one.
        return idle - np.minimum(np.maximum(load, 0), 1) / 2

    def sees(self, view: View) -> object:
        return view.gpus


class Pack:
    """For pods that may share a node: the node that loses least for the demands seen lately (`fragmentation`), the fullest
    first among equals. No whole node is broken where a partly used one takes the pod, whatever demands were seen lately, but
    where a demand seen lately needs just that rest (`Outlook.needed`).

    Fullest is by free GPUs, and by free CPU as so many GPUs as it is there for: best-fit, as FGD's authors compare with.
    A score is minus what the node would lose, in GPUs of an average pod.
    """

    meaning = "fill nodes, so that large pods find room"
    peers_first = False
    spares_whole = False

    def __call__(self, columns: Columns, rows: Rows, demand: Demand, view: View) -> Floats:
        seen = outlook(columns, view)
        scores = -seen.cost(columns, rows, demand)
        for whole in whole_nodes(columns, view, demand):
            last = whole.broken(columns, rows, demand) | seen.needed(columns, rows, demand)
            scores = scores - LAST * last
        return scores

    def sees(self, view: View) -> object:
        return view.version


class Apart(Pack):
    """For replicas that should not share a node, on a cluster where whole nodes are wanted too: the caller puts nodes with
    fewer pods of the same owner first, then as `Pack`. `Spread` takes the emptiest nodes, and large pods find none. Once one
    in twenty of the largest nodes is left whole, no more of them are broken only to keep replicas apart (`Whole.scarce`)."""

    meaning = (
        "away from the owner's other pods, else as pack; for that alone it does not break the last whole nodes, one in twenty "
        "of the largest"
    )
    peers_first = True
    spares_whole = True


STRATEGIES: Final[dict[str, Strategy]] = {
    "pack": Pack(),
    "apart": Apart(),
    "spread": Spread(),
}
"""By their names in the policy: a new one is a file with its class, and one line here."""


def keeps_apart(name: str) -> bool:
    """Whether a strategy, or `off`, keeps the pods of one owner apart."""
    return name in STRATEGIES and STRATEGIES[name].peers_first
