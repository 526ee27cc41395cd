"""How the stock scheduler scores nodes that can take a pod, as whole numbers.

k8s.io/kubernetes pkg/scheduler/framework/plugins: noderesources (LeastAllocated and BalancedAllocation over CPU and memory,
weight 1 each), nodeaffinity (2), tainttoleration (3), and their weights in pkg/scheduler/apis/config/v1/default_plugins.go.
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
    """`cpu`, `memory`: the part of a node's that is free once the pod is there."""
    least = ((cpu * _MAX_SCORE).astype(np.int64) + (memory * _MAX_SCORE).astype(np.int64)) // 2
    return least + ((1 - np.abs(cpu - memory) / 2) * _MAX_SCORE).astype(np.int64)


def affinity(points: Integers) -> Integers:
    """`points`: the weights of the preferred terms that a node matches, added up. The best node gets 200."""
    max_count = int(points.max(initial=0))
    return _AFFINITY * (_MAX_SCORE * points // max_count) if max_count else np.zeros_like(points)


def taints(untolerated: NDArray[np.int64]) -> Integers:
    """`untolerated`: taints with the effect PreferNoSchedule that the pod does not tolerate. A node without any gets 300."""
    max_count = int(untolerated.max(initial=0))
    return _TAINTS * (_MAX_SCORE - _MAX_SCORE * untolerated // max_count) if max_count else np.zeros_like(untolerated)
