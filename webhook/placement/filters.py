"""Filters nodes by their status and labels, with a constant reason for each node that the pod may not use."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node import Status
from webhook.cluster.node_table import Rows
from webhook.cluster.nodes import Nodes
from webhook.kube.taints import KUBERNETES, kind_of
from webhook.placement.constraints import Constraints, Mask, Term, matches, matches_any
from webhook.placement.settings import Health

Check = tuple[str, Mask]
"""A reason, and a mask of the rows that pass."""

_REASONS: Final = ("", "not ready", "cordoned", "taint not tolerated", "GPUs are not healthy")
"""Why the status of a node keeps a pod away; "" if it does not."""
_MAX_SOFT_TAINTS: Final = 20
"""Maximum number of soft taints that count."""
_PRESSURE: Final = frozenset([(f"{resource}Pressure", "True") for resource in ("Memory", "Disk", "PID")])
"""The conditions that some taints of a problem follow, moments later."""


class _ByStatus:
    """A number for each status, computed once: nodes have few statuses, and each takes 3 µs."""

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
    """Which nodes the pods of one shape may use, whatever is free there. The answer changes only when a node does."""

    def __init__(
        self,
        constraints: Constraints,
        health: Health,
        volumes: tuple[tuple[Term, ...], ...] = (),
        claims: tuple[tuple[Term, ...], ...] = (),
    ) -> None:
        self.constraints = constraints
        self.volumes = volumes
        """For each volume of the pod, the terms of which its node must match one."""
        self._claims = claims
        self._health = health
        self._reasons = _ByStatus(self._reason)
        self._penalty = _ByStatus(self._penalty_of)

    def mask(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` the pod may use."""
        return self.open(nodes, rows) & self.selected(nodes, rows)

    def open(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` the pod may use by their status, whatever their labels."""
        mask: Mask = self._reasons.of(nodes, rows) == 0
        return mask

    def selected(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` are nodes that the pod may use by their labels."""
        mask: Mask = nodes.columns.alive[rows].copy()
        for _, passes in self._label_checks(nodes, rows):
            mask &= passes
        return mask

    def penalty(self, nodes: Nodes, rows: Rows) -> NDArray[np.int8]:
        """By row, 0 for most nodes; nodes with a higher penalty rank later, whatever their score.

        1 for each soft taint that the pod does not tolerate, as TaintToleration counts them. More for a node that is cordoned
        or under pressure, where the pod tolerates that; most for a node that will soon be removed.
        """
        return self._penalty.of(nodes, rows)

    def checks(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        """Each reason with the rows that pass. Node pressure is read from taints, as the scheduler does."""
        numbers = self._reasons.of(nodes, rows)
        for number, reason in enumerate(_REASONS[1:], 1):
            yield reason, numbers != number
        yield from self._label_checks(nodes, rows)

    def _reason(self, status: Status) -> int:
        """An index into `_REASONS`."""
        if any([kind == "Ready" and value != "True" for kind, value in status.conditions]):
            return 1
        if status.cordoned and not self.constraints.tolerates_cordon:
            return 2
        if not all([self.constraints.admits(taint) for taint in status.taints]):
            return 3
        return 0 if status.conditions.isdisjoint(self._health.conditions.items()) else 4

    def _penalty_of(self, status: Status) -> int:
        penalty = min(self.constraints.soft(status.taints), _MAX_SOFT_TAINTS)
        problem = any([t.key.startswith(KUBERNETES[0]) for t in status.taints]) or not _PRESSURE.isdisjoint(
            status.conditions
        )
        if status.cordoned or problem:
            penalty += _MAX_SOFT_TAINTS + 1
        if any([kind_of(t) == "leaving" for t in status.taints]):
            penalty += 2 * (_MAX_SOFT_TAINTS + 1)
        return penalty

    def _label_checks(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        if self.constraints.selector:
            yield "node selector does not match", matches(self.constraints.selector, nodes, rows)
        if self.constraints.required is not None:
            yield "node affinity does not match", matches_any(self.constraints.required, nodes, rows)
        for terms in self.volumes:
            yield "its volume is elsewhere", matches_any(terms, nodes, rows)
        for terms in self._claims:
            yield "its claim is elsewhere", matches_any(terms, nodes, rows)
        yield _REASONS[4], self._healthy(nodes, rows)

    def _healthy(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` have no label of an unhealthy node."""
        mask = np.ones(nodes.columns.alive[rows].shape, bool)
        for key, values in self._health.labels.items():
            column = nodes.labels.column(key)
            if column is not None:
                healthy = np.ones(len(column.values), bool)
                if "*" in values:
                    healthy[1:] = False
                healthy[[column.ids[value] for value in values if value in column.ids]] = False
                mask &= healthy[column.padded(nodes.columns.size)[rows]]
        return mask
