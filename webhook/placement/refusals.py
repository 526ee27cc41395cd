"""Why no node can take a pod: how many nodes each reason keeps away."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from webhook.cluster.columns import Demand
from webhook.cluster.state import ClusterState
from webhook.facts import Rejected
from webhook.gpus import Gpus
from webhook.placement.constraints import Mask
from webhook.placement.filters import Filter

_KEPT: Final = 256
_INSUFFICIENT: Final = {
    "cpu": "too little CPU",
    "memory": "too little memory",
    "pods": "too many pods",
    "ephemeral-storage": "too little ephemeral storage",
}


class _Standing(NamedTuple):
    """What stands until a node changes, whatever pods do."""

    rejected: dict[str, int]
    left: Mask
    """The rows that no such reason keeps away."""


class Refusals:
    """Answers for one set of GPU names. In a full cluster pod after pod is refused: what only nodes change is kept."""

    def __init__(self, state: ClusterState, gpus: Gpus) -> None:
        self._state = state
        self._gpus = gpus
        self._version = (-1, -1)
        self._standing: dict[tuple[Filter, Demand, bool], _Standing] = {}
        self._answers: dict[tuple[Filter, Demand, bool], tuple[int, Rejected]] = {}
        self._by_claim: Mask = np.zeros(0, bool)

    def reasons(self, static: Filter, demand: Demand, *, empty: bool = False) -> Rejected:
        """How many nodes each reason keeps away, most first. A node counts for the first reason that applies to it.

        `empty`: as if no pods were there and every node were up. () where some node can take the pod.
        """
        self._forget()
        key, position = (static, demand, empty), self._state.nodes.columns.changes.position
        known = self._answers.get(key)
        if known is None or (known[0] != position and not empty):
            known = self._answers[key] = position, self._count(key)
        return known[1]

    def _forget(self) -> None:
        version = self._state.nodes.version, self._state.slices.version
        if version != self._version:
            self._version = version
            self._by_claim = np.zeros(0, bool)
        elif len(self._answers) < _KEPT:
            return
        self._standing.clear()
        self._answers.clear()

    def _count(self, key: tuple[Filter, Demand, bool]) -> Rejected:
        _, demand, empty = key
        columns = self._state.nodes.columns
        standing = self._standing.get(key)
        if standing is None:
            standing = self._standing[key] = self._standing_of(*key)
        left, found = standing.left, dict(standing.rejected)
        offered = columns.capacity if empty else columns.free
        few = "too few GPUs" if empty else "too few free GPUs"
        for resource, amount in demand.requests:
            gpu = self._gpus.kind(resource) is not None
            reason = few if gpu else _INSUFFICIENT.get(resource, "too little of a resource")
            enough = offered[resource][: len(left)] >= amount if resource in offered else np.zeros(len(left), bool)
            left = _keep_away(found, reason, left, enough)
        return () if left.any() else tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def _standing_of(self, static: Filter, demand: Demand, empty: bool) -> _Standing:
        nodes = self._state.nodes
        rows, capacity = slice(0, nodes.columns.rows), nodes.columns.capacity
        found: dict[str, int] = {}
        left = nodes.columns.alive[rows]
        asked = self._gpus.among([name for name, _ in demand.requests])
        has = np.ones(left.shape, bool)
        for resource in asked:
            has &= capacity[resource][rows] > 0 if resource in capacity else False
        if nodes.dra:
            left = _keep_away(found, "GPUs only through DRA", left, has | ~self._claimed(nodes.columns.rows))
        left = _keep_away(found, "no such GPU", left, has)
        for reason, passes in static.lasting_checks(nodes, rows) if empty else static.checks(nodes, rows):
            left = _keep_away(found, reason, left, passes)
        return _Standing(found, left)

    def _claimed(self, count: int) -> Mask:
        """Which rows are nodes whose GPUs are told by ResourceSlices."""
        if len(self._by_claim) != count:
            self._by_claim, row_of = np.zeros(count, bool), self._state.nodes.row_of
            self._by_claim[[row for name in self._state.nodes.dra if (row := row_of.get(name)) is not None]] = True
        return self._by_claim


def _keep_away(found: dict[str, int], reason: str, left: Mask, passes: Mask) -> Mask:
    """What is left of `left` after one more reason, which is counted."""
    kept: Mask = left & passes
    if count := int(np.count_nonzero(left)) - int(np.count_nonzero(kept)):
        found[reason] = found.get(reason, 0) + count
    return kept
