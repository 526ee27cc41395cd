"""Which nodes can take a pod, and why the others cannot: a constant reason each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import numpy as np

from webhook.cluster.interned import Interned
from webhook.cluster.node_table import Rows
from webhook.cluster.nodes import Conditions, Nodes
from webhook.framework.cluster_view import Taint
from webhook.placement.constraints import Constraints, Mask, matches
from webhook.placement.settings import Health

T = TypeVar("T")
_UNTOLERATED = "taint not tolerated"
Check = tuple[str, Mask]
"""A reason, and the rows that it does not apply to."""

PASSING = (
    *("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/"),
    *("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"),
)
"""Taints that come and go with the state of a node begin with one of these."""


class _Answers(Generic[T]):
    """Yes or no for each of the interned values, asked once per value: nodes share few sets of taints and conditions, and each
    costs 3 µs to look at."""

    __slots__ = ("_ask", "_epoch", "_table")

    def __init__(self, ask: Callable[[T], bool]) -> None:
        self._ask = ask
        self._epoch = -1
        self._table: Mask = np.zeros(0, bool)

    def of(self, interned: Interned[T]) -> Mask:
        if self._epoch != interned.epoch:
            self._epoch, self._table = interned.epoch, np.zeros(0, bool)
        known = len(self._table)
        if known < len(interned.values):
            more = np.array([self._ask(value) for value in interned.values[known:]], bool)
            self._table = np.concatenate([self._table, more])
        return self._table


class Filter:
    """What a pod shape says about nodes, whatever is free there. It changes only when a node does."""

    def __init__(self, constraints: Constraints, health: Health) -> None:
        self.constraints = constraints
        self._health = health
        bad = set(health.conditions.items())
        self._tolerated: _Answers[tuple[Taint, ...]] = _Answers(
            lambda taints: all(constraints.tolerate(taint) for taint in taints)
        )
        self._tolerated_in_the_end: _Answers[tuple[Taint, ...]] = _Answers(
            lambda taints: all(t.key.startswith(PASSING) or constraints.tolerate(t) for t in taints)
        )
        self._ready: _Answers[Conditions] = _Answers(
            lambda found: not any(kind == "Ready" and status != "True" for kind, status in found)
        )
        self._healthy: _Answers[Conditions] = _Answers(bad.isdisjoint)
        self._tolerate_cordon = constraints.tolerate_cordon

    def mask(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` the pod may go to."""
        mask = nodes.columns.alive[rows].copy()
        for _, passes in self.checks(nodes, rows):
            mask &= passes
        return mask

    def checks(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        """Each reason with the rows that it does not apply to. Node pressure is read from taints, as the scheduler does."""
        yield "not ready", self._ready.of(nodes.conditions)[nodes.condition[rows]]
        if not self._tolerate_cordon:
            yield "cordoned", ~nodes.cordoned[rows]
        yield _UNTOLERATED, self._tolerated.of(nodes.taints)[nodes.taint[rows]]
        yield from self._selects(nodes, rows)
        healthy = self._healthy.of(nodes.conditions)[nodes.condition[rows]]
        yield "GPUs are not healthy", healthy & self._labelled(nodes, rows)

    def lasting_checks(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        """As `checks`, without what may pass by itself: a node that is down, cordoned or repaired now."""
        yield _UNTOLERATED, self._tolerated_in_the_end.of(nodes.taints)[nodes.taint[rows]]
        yield from self._selects(nodes, rows)

    def _selects(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        if self.constraints.selector:
            yield "node selector does not match", matches(self.constraints.selector, nodes, rows)
        if self.constraints.required is not None:
            mask = np.zeros(nodes.order[rows].shape, bool)
            for term in self.constraints.required:
                mask |= matches(term, nodes, rows)
            yield "node affinity does not match", mask

    def _labelled(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which rows no label calls unhealthy."""
        mask = np.ones(nodes.order[rows].shape, bool)
        for key, values in self._health.labels.items():
            column = nodes.labels.column(key)
            if column is not None:
                fine = np.ones(len(column.values), bool)
                if "*" in values:
                    fine[1:] = False
                fine[[column.ids[value] for value in values if value in column.ids]] = False
                mask &= fine[column.padded(nodes.columns.size)[rows]]
        return mask
