"""Scores of the stock scheduler for nodes that can take a pod, in whole numbers and with the plugin's weight.

Sources in k8s.io/kubernetes: pkg/scheduler/framework/plugins, noderesources (LeastAllocated and BalancedAllocation over CPU and
memory, weight 1 each), nodeaffinity (weight 2), tainttoleration (weight 3); weights are set in
pkg/scheduler/apis/config/v1/default_plugins.go.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node_table import Floats, Integers

_MAX_SCORE: Final = 100
_AFFINITY, _TAINTS = 2, 3
"""Weights of the plugins."""


def resources(cpu: Floats, memory: Floats) -> Integers:
    """LeastAllocated and BalancedAllocation. `cpu`, `memory`: the share of a node that stays free with the pod, 0 to 1."""
    least = ((cpu * _MAX_SCORE).astype(np.int64) + (memory * _MAX_SCORE).astype(np.int64)) // 2
    return least + ((1 - np.abs(cpu - memory) / 2) * _MAX_SCORE).astype(np.int64)


def affinity(points: Integers) -> Integers:
    """NodeAffinity. `points`: the sum of the weights of the preferred terms that each node matches. The best node gets 200."""
    max_count = int(points.max(initial=0))
    return _AFFINITY * (_MAX_SCORE * points // max_count) if max_count else np.zeros_like(points)


def taints(untolerated: NDArray[np.int64]) -> Integers:
    """TaintToleration. `untolerated`: the number of PreferNoSchedule taints that the pod does not tolerate, of each node. A node
    without any gets 300, but 0 if no node has one: then all are equal."""
    max_count = int(untolerated.max(initial=0))
    return _TAINTS * (_MAX_SCORE - _MAX_SCORE * untolerated // max_count) if max_count else np.zeros_like(untolerated)
