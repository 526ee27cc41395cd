"""A model of the stock scheduler. It filters nodes as `why` does, and binds the pod to the node with the best score.

Not modelled: the scores of PodTopologySpread, InterPodAffinity and ImageLocality; preemption; sampling of nodes in large
clusters. The scheduler chooses at random among equal nodes; the model takes the first by name. KAI's parts go where KAI prefers.

Scores are whole numbers with the plugin's weight. Sources in k8s.io/kubernetes: pkg/scheduler/framework/plugins, noderesources
(LeastAllocated and BalancedAllocation over CPU and memory), nodeaffinity, tainttoleration; weights are set in
pkg/scheduler/apis/config/v1/default_plugins.go.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.kube.pod import Pod
from webhook.nodes.table import Floats, Integers
from webhook.placement.constraints import matches
from webhook.whatif.waiting.diagnosis import Filtered, causes_before_filtering, signature_of
from webhook.whatif.waiting.situation import Case, Situation

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


class Scheduler:
    """Schedules pods in one situation, and enters each bound pod into it."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        order = sorted(range(len(situation.alive)), key=lambda row: situation.names[row])
        self._by_name = np.empty(len(order), np.intp)
        self._by_name[order] = np.arange(len(order))
        self._waiting: set[bytes] = set()
        """Signatures of pods that fit on no node. A pod of such a signature is not filtered again until another pod is bound."""

    def bind(self, pod: Pod) -> Pod | None:
        """Bind the pod. Returns the pod as it is stored then; None if it waits."""
        s, signature, case = self.situation, signature_of(pod), Case(self.situation, pod)
        room = s.alive & case.judgement.room(s.nodes, s.rows, s.free)
        # Most of those that wait find no room: they need no more.
        if signature in self._waiting or not room.any() or causes_before_filtering(case):
            return None
        rows = np.flatnonzero(Filtered(case).able)
        if not len(rows):
            self._waiting.add(signature)
            return None
        score = self._score(case, rows)
        best = rows[score == score.max()]
        row = int(best[self._by_name[best].argmin()])
        self._waiting.clear()
        return self.situation.bind(case, row)

    def _score(self, case: Case, rows: NDArray[np.intp]) -> Integers:
        s, nodes = self.situation, self.situation.nodes
        if case.part is not None:
            return s.groups.score(case.part, rows, case.whole_gpus)
        score = resources(*[self._left(case, name, rows) for name in ("cpu", "memory")])
        points = np.zeros(len(rows), np.int64)
        for term, weight in case.constraints.preferred:
            points += weight * matches(term, nodes, rows)
        soft = s.by_status([case.constraints.soft(status.taints) for status in nodes.statuses])
        return score + affinity(points) + taints(soft[rows])

    def _left(self, case: Case, name: str, rows: NDArray[np.intp]) -> Floats:
        """The share of the resource that stays free on each node with the pod, 0 to 1."""
        free, capacity = self.situation.free[name][rows], self.situation.capacity[name][rows]
        left: Floats = np.clip((free - case.pod_requests.amount(name)) / np.maximum(capacity, 1), 0, 1)
        return left
