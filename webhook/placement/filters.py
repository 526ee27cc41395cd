"""Which nodes can take a pod, and why the others cannot: a constant reason each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node import Status
from webhook.cluster.node_table import Rows
from webhook.cluster.nodes import Nodes
from webhook.placement.constraints import Constraints, Mask, Term, matches
from webhook.placement.settings import Health

Check = tuple[str, Mask]
"""A reason, and the rows that it does not apply to."""

_REASONS: Final = ("", "not ready", "cordoned", "taint not tolerated", "GPUs are not healthy")
"""Why a pod may not go to a node of some status; "" where it may."""
_MAX_SOFT_TAINTS: Final = 20
"""Soft taints that are counted."""
PASSING = (
    *("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/"),
    *("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"),
    *[f"{kind}-taint.cluster-autoscaler.kubernetes.io/" for kind in ("startup", "status", "ignore")],
    *("node.cilium.io/agent-not-ready", "ebs.csi.aws.com/agent-not-ready", "efs.csi.aws.com/agent-not-ready"),
)
"""Taints that come and go with the state of a node begin with one of these."""


_LEAVING: Final = (
    *("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"),
    "karpenter.sh/disrupt",  # disrupted; before version 1 disruption
    *("node.cloudprovider.kubernetes.io/shutdown", "cloud.google.com/impending-node-termination"),
    *("aws-node-termination-handler/", "node.kubernetes.io/out-of-service"),
)
"""Taints of nodes that are about to go begin with one of these, whatever their effect."""
_AILING: Final = "node.kubernetes.io/"
"""Taints of Kubernetes itself that say what a node lacks: memory, disk, PIDs, network, its kubelet."""

_PRESSURE: Final = frozenset([(f"{resource}Pressure", "True") for resource in ("Memory", "Disk", "PID")])
"""The conditions that such taints follow, moments later."""


class _ByStatus:
    """A number for each status, worked out once: nodes share few of them, and each takes 3 µs."""

    def __init__(self, number_of: Callable[[Status], int]) -> None:
        self._number_of = number_of
        self._renumbered = 0
        self._table: NDArray[np.int8] = np.zeros(0, np.int8)

    def of(self, nodes: Nodes, rows: Rows) -> NDArray[np.int8]:
        if self._renumbered != nodes.renumbered:
            self._renumbered, self._table = nodes.renumbered, np.zeros(0, np.int8)
        if len(self._table) < len(nodes.statuses):
            more = [self._number_of(status) for status in nodes.statuses[len(self._table) :]]
            self._table = np.append(self._table, np.array(more, np.int8))
        numbers: NDArray[np.int8] = self._table[nodes.columns.status[rows]]
        return numbers


class Filter:
    """What a pod shape says about nodes, whatever is free there. It changes only when a node does."""

    def __init__(self, constraints: Constraints, health: Health, volumes: tuple[tuple[Term, ...], ...] = ()) -> None:
        self.constraints = constraints
        self.volumes = volumes
        """For each volume of the pod the terms of which one must match."""
        self._health = health
        self._now = _ByStatus(self._reason)
        self._in_the_end = _ByStatus(self._lasting_reason)
        self._reluctance = _ByStatus(self._reluctant)

    def mask(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` the pod may go to."""
        return self.open(nodes, rows) & self.selected(nodes, rows)

    def open(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` are in a state in which the pod may go there, whatever their labels."""
        mask: Mask = self._now.of(nodes, rows) == 0
        return mask

    def selected(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` are nodes that the pod may go to by their labels."""
        mask: Mask = nodes.columns.alive[rows].copy()
        for _, passes in self._selects(nodes, rows):
            mask &= passes
        return mask

    def reluctance(self, nodes: Nodes, rows: Rows) -> NDArray[np.int8]:
        """By row, how little a node is to be used that the pod may go to: 0 for most, and nodes with more go last, whatever
        their score. One for each soft taint that the pod does not tolerate, as TaintToleration counts them; more for a node
        that is cordoned or under pressure, which this pod tolerates; most for one that is about to go."""
        return self._reluctance.of(nodes, rows)

    def checks(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        """Each reason with the rows that it does not apply to. Node pressure is read from taints, as the scheduler does."""
        numbers = self._now.of(nodes, rows)
        for number, reason in enumerate(_REASONS[1:], 1):
            yield reason, numbers != number
        yield from self._selects(nodes, rows)

    def lasting_checks(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        """As `checks`, without what may pass by itself: a node that is down, cordoned or repaired now."""
        yield _REASONS[3], self._in_the_end.of(nodes, rows) == 0
        yield from self._selects(nodes, rows, lasting=True)

    def _reason(self, status: Status) -> int:
        if any([kind == "Ready" and value != "True" for kind, value in status.conditions]):
            return 1
        if status.cordoned and not self.constraints.tolerate_cordon:
            return 2
        if not all([self.constraints.tolerate(taint) for taint in status.taints]):
            return 3
        return 0 if status.conditions.isdisjoint(self._health.conditions.items()) else 4

    def _reluctant(self, status: Status) -> int:
        reluctance = sum(
            [t.effect == "PreferNoSchedule" and not self.constraints.tolerate_softly(t) for t in status.taints]
        )
        reluctance = min(reluctance, _MAX_SOFT_TAINTS)
        ailing = any([t.key.startswith(_AILING) for t in status.taints]) or not _PRESSURE.isdisjoint(status.conditions)
        if status.cordoned or ailing:
            reluctance += _MAX_SOFT_TAINTS + 1
        if any([t.key.startswith(_LEAVING) for t in status.taints]):
            reluctance += 2 * (_MAX_SOFT_TAINTS + 1)
        return reluctance

    def _lasting_reason(self, status: Status) -> int:
        return 0 if all([t.key.startswith(PASSING) or self.constraints.tolerate(t) for t in status.taints]) else 3

    def _selects(self, nodes: Nodes, rows: Rows, *, lasting: bool = False) -> Iterator[Check]:
        if self.constraints.selector:
            yield "node selector does not match", matches(self.constraints.selector, nodes, rows)
        if self.constraints.required is not None:
            yield "node affinity does not match", _any_of(self.constraints.required, nodes, rows)
        for terms in self.volumes:
            yield "its volume is elsewhere", _any_of(terms, nodes, rows)
        if not lasting:
            yield _REASONS[4], self._labelled(nodes, rows)

    def _labelled(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which rows no label calls unhealthy."""
        mask = np.ones(nodes.columns.alive[rows].shape, bool)
        for key, values in self._health.labels.items():
            column = nodes.labels.column(key)
            if column is not None:
                fine = np.ones(len(column.values), bool)
                if "*" in values:
                    fine[1:] = False
                fine[[column.ids[value] for value in values if value in column.ids]] = False
                mask &= fine[column.padded(nodes.columns.size)[rows]]
        return mask


def _any_of(terms: tuple[Term, ...], nodes: Nodes, rows: Rows) -> Mask:
    mask = np.zeros(nodes.columns.alive[rows].shape, bool)
    for term in terms:
        mask |= matches(term, nodes, rows)
    return mask
