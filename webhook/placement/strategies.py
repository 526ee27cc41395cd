"""All placement strategies by name, the strategy `spread`, and the weights of the preferred terms.

A strategy implements `nodes.popular.Strategy`: a score for each row, from that row, the kind of pod and the view alone. To add
one: `webhook/placement/<word>.py`, which also states its `meaning` for the policy, whether hosts and zones with fewer peers come
first, and which part of the view its scores depend on; `tests/placement/test_<word>.py`, which of two nodes it takes; one line in
STRATEGIES, and `make manifests`.
"""

from typing import Final

import numpy as np

from webhook.kube.pod_requests import PodRequests
from webhook.nodes.popular import Strategy, View
from webhook.nodes.table import Columns, Floats, Rows
from webhook.placement.pack import Apart, Pack

WEIGHTS: Final = (100, 35, 12, 8, 7, 6, 5, 4, 3, 2)
"""Weights of the preferred terms, best node first.

The scheduler scales NodeAffinity to 100 for the best feasible node and doubles it (plugins/nodeaffinity, weight 2). So
the first node is 130 points ahead of the second, and if the first is full, the second is 131 ahead of the third. A node
that has the pod's large image gets 100 points (ImageLocality); an emptier node gets up to 200 from LeastAllocated and
BalancedAllocation, in practice less than half of that. The last weights only fall: they keep a burst on ranked nodes when
the first ones are taken.
"""


class Spread:
    """For replicas that should not share a node, on a cluster without large pods that need whole nodes; else see `Apart`.

    Hosts and zones with fewer pods of the same owner come first (`peer_rules`). Then the most idle GPUs count (a GPU that is
    neither measured nor allocated counts as idle), then the lowest mean utilisation (without metrics, the allocated part).
    """

    meaning = "spread the replicas over hosts and zones, then the emptiest and idlest node"
    spreads = True
    keeps_whole_nodes = False

    def __call__(self, columns: Columns, rows: Rows, pod_requests: PodRequests, view: View) -> Floats:
        free = np.zeros(columns.alive[rows].shape)
        capacity = np.zeros_like(free)
        for name, _ in pod_requests.requests:
            if name in view.gpus and name in columns.free:
                # A share of a GPU that four pods share is a quarter of it.
                free += columns.free[name][rows] / columns.sharing[rows]
                capacity += columns.capacity[name][rows] / columns.sharing[rows]
        measured = columns.measured[rows]
        unknown = np.maximum(np.minimum(free, capacity - measured), 0)
        idle = np.minimum(columns.idle[rows] + unknown, free)
        load = np.where(measured > 0, columns.utilisation[rows], 1 - free / np.maximum(capacity, 1))
        # Idle GPUs are whole numbers, so half a point for the utilisation never outweighs one.
        return idle - np.minimum(np.maximum(load, 0), 1) / 2

    def score_key(self, view: View) -> object:
        return view.gpus


STRATEGIES: Final[dict[str, Strategy]] = {
    "pack": Pack(),
    "apart": Apart(),
    "spread": Spread(),
}
"""The strategies by their names in the policy. A new one is a file with its class, and one line here."""


def spreads(name: str) -> bool:
    """Whether a strategy spreads the pods of one owner over hosts and zones; False for `off`."""
    return name in STRATEGIES and STRATEGIES[name].spreads
