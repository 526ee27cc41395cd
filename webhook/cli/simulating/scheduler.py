"""A model of the stock scheduler: the nodes that `pending` would say fit, and of them the best by its scores.

Not modelled: the scores of PodTopologySpread, InterPodAffinity and ImageLocality, preemption, and that it draws among equals and
looks at a part of the nodes in large clusters. Here the first by name wins.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cli.simulating import scores
from webhook.cli.waiting.diagnosis import causes_before_filtering, fits, shape_of
from webhook.cli.waiting.situation import Case, Situation
from webhook.cluster.node_table import Floats, Integers
from webhook.framework.cluster_view import Taint
from webhook.kube.pod import Pod
from webhook.placement.constraints import Constraints, matches

_PREFER: Final = "PreferNoSchedule"


class Scheduler:
    """Binds pods in one situation, which it changes."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        order = sorted(range(len(situation.alive)), key=lambda row: situation.names[row])
        self._by_name = np.empty(len(order), np.intp)
        self._by_name[order] = np.arange(len(order))
        self._waiting: set[bytes] = set()
        """Shapes of pods for which there is no node, until a pod is bound: another of the shape is not looked at again."""

    def bind(self, pod: Pod) -> str | None:
        """The node that the pod is bound to; None where it waits."""
        shape = shape_of(pod)
        case = None if shape in self._waiting else Case.of(self.situation, pod)
        if case is None or causes_before_filtering(case):
            return None
        rows = np.flatnonzero(fits(case))
        if not len(rows):
            self._waiting.add(shape)
            return None
        score = self._score(case, rows)
        best = rows[score == score.max()]
        row = int(best[self._by_name[best].argmin()])
        self.situation.bind(pod, case.demand, row)
        self._waiting.clear()
        return self.situation.names[row]

    def _score(self, case: Case, rows: NDArray[np.intp]) -> Integers:
        s, nodes = self.situation, self.situation.nodes
        score = scores.resources(*[self._left(case, name, rows) for name in ("cpu", "memory")])
        points = np.zeros(len(rows), np.int64)
        for term, weight in case.constraints.preferred:
            points += weight * matches(term, nodes, rows)
        soft = np.array([_soft(status.taints, case.constraints) for status in nodes.statuses], np.int64)
        return score + scores.affinity(points) + scores.taints(soft[nodes.columns.status[: len(s.alive)][rows]])

    def _left(self, case: Case, name: str, rows: NDArray[np.intp]) -> Floats:
        free, capacity = self.situation.free[name][rows], self.situation.capacity[name][rows]
        left: Floats = np.clip((free - case.demand.amount(name)) / np.maximum(capacity, 1), 0, 1)
        return left


def _soft(taints: tuple[Taint, ...], constraints: Constraints) -> int:
    """How many of these taints make the scheduler prefer other nodes for the pod."""
    effects = ("", _PREFER)
    return sum(
        constraints.tolerations.isdisjoint(
            [(k, v, e) for k, v in (("", None), (key, None), (key, value)) for e in effects]
        )
        for key, value, effect in taints
        if effect == _PREFER
    )
