"""Which filter of the scheduler keeps a pod from a node. This is the only place that decides it.

It has four callers, which differ in the settings of `Switches`:

- The ranker takes masks. `NodeScores` keeps two for each pod signature: `selected` (labels) and `open` (taints, cordon, health)
  are made again for the rows whose nodes changed, and `room` once for each state of amounts.
- The record of a decision counts the nodes that each word excludes (`counted`).
- The rule `gpuFits` asks which filter excludes the last of the empty nodes (`why_not`).
- `why` takes the checks as masks of all nodes, adds those that need all pods (ports, volumes, peers), and writes texts and
  fixes by word. `try` binds pods by the same masks.

A `Check` is a word, which nodes pass, and what it is about: taints, an expression, or a resource with its amount. `checks` yields
them in the order of the scheduler (pkg/scheduler/apis/config/v1/default_plugins.go):

    NodeUnschedulable, TaintToleration, NodeAffinity, NodeResourcesFit     from the pod and the node
    VolumeBinding, VolumeZone                                              the volumes that confine the pod
    PodTopologySpread, InterPodAffinity                                    `peers`: checks of the caller, who knows the pods
    DynamicResources                                                       claims with devices, and devices that are free
    not ready, health                                                      ours: the scheduler would take such a node

Nodes other than those that a pod names by their field come first: the scheduler does not filter them (PreFilterResult). Of one
plugin GPUs come before other resources, since a person looks for them first. NodePorts, VolumeRestrictions and NodeVolumeLimits
are not judged here: `why` has a check of its own, and a ranked pod may meet them at the scheduler.

The status of a node is read as bits, once for each status: nodes have few, and each takes 3 µs. `kube.taints` says what a taint
means. The word follows from that, so nobody is told to tolerate what passes by itself.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.devices.types import PUBLISHED
from webhook.framework.cluster_view import Rejected
from webhook.kube.gpus import Gpus
from webhook.kube.pod_requests import PodRequests
from webhook.kube.taints import CORDON, KUBERNETES, Taint, kind_of, passes
from webhook.nodes.nodes import Nodes, Status
from webhook.nodes.table import Integers, Rows
from webhook.placement.constraints import NO_CONSTRAINTS, Constraints, Mask, Term, matches, matches_any
from webhook.placement.devices import found_devices
from webhook.placement.peer_rules import PeerRules, Peers, arrays_of, domains_of
from webhook.placement.settings import Health
from webhook.state.state import ClusterState

CORDONED: Final = "cordoned"
NOT_READY: Final = "not ready"
TAINTED: Final = "taint not tolerated"
SELECTOR: Final = "node selector does not match"
AFFINITY: Final = "node affinity does not match"
VOLUME: Final = "its volume is elsewhere"
CLAIM: Final = "its claim is elsewhere"
DEVICES: Final = "no free devices for its claims"
BY_DRA: Final = "GPUs only through DRA"
NO_GPU: Final = "no such GPU"
TOO_FEW: Final = "too few free GPUs"
PEERS: Final = "its rules about pods of its owner"
SICK: Final = "GPUs are not healthy"
_INSUFFICIENT: Final = {
    "cpu": "too little CPU",
    "memory": "too little memory",
    "pods": "too many pods",
    "ephemeral-storage": "too little ephemeral storage",
}
_OTHER: Final = "too little of a resource"

_CORDON, _PASSING, _LASTING, _DOWN, _ILL = 1, 2, 4, 8, 16
"""Bits of what is wrong with the status of a node."""
_MAX_SOFT_TAINTS: Final = 20
"""Maximum number of soft taints that count."""
_PRESSURE: Final = frozenset([(f"{resource}Pressure", "True") for resource in ("Memory", "Disk", "PID")])
"""The conditions that some taints of a problem follow, moments later."""
_NO_DEMAND: Final = PodRequests(())


class Switches(NamedTuple):
    """All that differs between those who ask."""

    reservations: bool = True
    """What is reserved for pods that are not bound is not free. The scheduler knows nominations alone, and only for some pods."""
    health: Health | None = None
    """Nodes that this calls unhealthy, and nodes that are not ready, do not pass; None: nobody looks, as the scheduler does."""
    passing: bool = True
    """What passes by itself counts: cordons, and taints that come and go."""
    empty: bool = False
    """Nodes are as they would be without any pod."""


SCHEDULER: Final = Switches(reservations=False)
"""As the scheduler judges now."""
EVER: Final = Switches(passing=False, empty=True)
"""Whether a node could take the pod if it were up and empty."""


class Check(NamedTuple):
    """One filter, or one part of it."""

    word: str
    passes: Mask
    """Which of the rows that were asked for."""
    about: Any = None
    """Taints: `Feasible.untolerated`. Labels: the terms of which one must match. Resources: the name and the amount."""


def free_amounts(state: ClusterState, switches: Switches) -> dict[str, Integers]:
    """What is free of each resource by row, of all rows: the caller's own arrays if `switches` leave something out."""
    columns = state.nodes.columns
    if switches.empty:
        return columns.capacity
    if switches.reservations:
        return columns.free
    found = {name: array[: columns.rows].copy() for name, array in columns.free.items()}
    for row, kind in state.promised():
        for name, amount in kind.pod_requests.requests:
            if name in found:
                found[name][row] += amount
    return found


def counted(nodes: Nodes, checks: Iterable[Check]) -> Rejected:
    """How many nodes each word excludes, most first. A node counts for the first word that applies to it. () if some node
    passes all."""
    left, rejected = nodes.columns.alive[: nodes.columns.rows], dict[str, int]()
    for word, passing, _ in checks:
        kept = left & passing
        if count := int(np.count_nonzero(left)) - int(np.count_nonzero(kept)):
            rejected[word] = rejected.get(word, 0) + count
        left = kept
    return () if left.any() else tuple(sorted(rejected.items(), key=lambda item: (-item[1], item[0])))


class _ByStatus:
    """A number for each status, computed once."""

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


class Feasible:
    """Judges nodes for the pods of one signature, whatever is free there. The answer changes only when a node does."""

    def __init__(
        self,
        constraints: Constraints,
        pod_requests: PodRequests = _NO_DEMAND,
        switches: Switches = SCHEDULER,
        *,
        volumes: tuple[tuple[Term, ...], ...] = (),
        claims: tuple[tuple[Term, ...], ...] = (),
        claimed: Collection[str] = (),
    ) -> None:
        self.constraints = constraints
        self.pod_requests = pod_requests
        self.switches = switches
        self.volumes = volumes
        """For each volume of the pod, the terms of which its node must match one."""
        self._claims = claims
        self._requests = [each for each in pod_requests.requests if not each[0].startswith(PUBLISHED)]
        """What the pod requests, without what is published as devices."""
        self._claimed = claimed
        """Resources of which the scheduler makes a claim where no device plugin offers them."""
        self._bits = _ByStatus(self._bits_of)
        self._penalty = _ByStatus(self._penalty_of)
        looked_at = _LASTING | (_CORDON | _PASSING if switches.passing else 0)
        self._looked_at = looked_at | (_DOWN | _ILL if switches.health is not None else 0)

    # --- masks --------------------------------------------------------------------------------------------------------

    def open(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` the pod may use by their status, whatever their labels."""
        mask: Mask = self._bits.of(nodes, rows) & self._looked_at == 0
        return mask

    def selected(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` are nodes that the pod may use by their labels."""
        mask: Mask = nodes.columns.alive[rows].copy()
        for check in (*self.selection(nodes, rows), *self._volumes(nodes, rows), *self._claimed_elsewhere(nodes, rows)):
            mask &= check.passes
        return mask & self._healthy(nodes, rows) if self.switches.health is not None else mask

    def room(self, nodes: Nodes, rows: Rows, free: Mapping[str, Integers]) -> Mask:
        """Which of `rows` have enough of all that the pod requests, but for what is claimed. `free`: see `free_amounts`."""
        asked = [each for each in self._requests if each[0] not in self._claimed]
        if not all([name in free for name, _ in asked]) or not asked:
            return np.full(nodes.columns.alive[rows].shape, not asked)
        enough = np.array([free[name][rows] for name, _ in asked]) >= np.array([[amount] for _, amount in asked])
        mask: Mask = np.logical_and.reduce(enough, axis=0)
        return mask

    def ever(self, nodes: Nodes) -> Mask:
        """Which of all rows could take the pod with all that is installed there, also what a plugin does not offer now."""
        rows = slice(0, nodes.columns.rows)
        columns = nodes.columns
        free = {name: columns.installed[name] if "/" in name else amounts for name, amounts in columns.capacity.items()}
        return self.selected(nodes, rows) & self.open(nodes, rows) & self.room(nodes, rows, free)

    def _by_author(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` match the nodeSelector and the required node affinity."""
        mask = np.ones(nodes.columns.alive[rows].shape, bool)
        for check in self.selection(nodes, rows):
            mask &= check.passes
        return mask

    def shut(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` take no pods at present, whatever lasting taints these tolerate."""
        mask: Mask = self._bits.of(nodes, rows) & self._looked_at & ~_LASTING != 0
        return mask | self.sick(nodes, rows)

    def down(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` are not ready: by their condition, or by a taint that the pod does not tolerate."""
        mask: Mask = self._bits.of(nodes, rows) & (_DOWN | _PASSING) != 0
        return mask

    def cordoned(self, nodes: Nodes, rows: Rows) -> Mask:
        mask: Mask = self._bits.of(nodes, rows) & _CORDON != 0
        return mask

    def sick(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` the policy calls unhealthy, by a condition or a label."""
        mask: Mask = self._bits.of(nodes, rows) & _ILL != 0
        return mask | ~self._healthy(nodes, rows)

    def penalty(self, nodes: Nodes, rows: Rows) -> NDArray[np.int8]:
        """By row, 0 for most nodes; nodes with a higher penalty rank later, whatever their score.

        1 for each soft taint that the pod does not tolerate, as TaintToleration counts them. More for a node that is cordoned
        or under pressure, where the pod tolerates that; most for a node that will soon be removed.
        """
        return self._penalty.of(nodes, rows)

    # --- checks -------------------------------------------------------------------------------------------------------

    def checks(
        self, nodes: Nodes, gpus: Gpus, free: Mapping[str, Integers], peers: Iterable[Check] = ()
    ) -> Iterator[Check]:
        """All checks of all nodes, whether they are alive or not. `free`: see `free_amounts`. `peers`: those of topology spread
        and of affinity between pods."""
        rows = slice(0, nodes.columns.rows)
        yield from self.pinned(nodes, rows)
        yield from self.status(nodes, rows)
        yield from self.selection(nodes, rows)
        yield from self.resources(nodes, rows, gpus, free)
        yield from self._volumes(nodes, rows)
        yield from peers
        yield from self._claimed_elsewhere(nodes, rows)
        if self.pod_requests.devices:
            table = nodes.devices
            found = found_devices(table, table.states, nodes.columns.devices[rows], self.pod_requests.devices)
            yield Check(DEVICES, found.ranks >= 0)
        if self.switches.health is not None:
            yield Check(NOT_READY, self._bits.of(nodes, rows) & _DOWN == 0)
            yield Check(SICK, ~self.sick(nodes, rows))

    def pinned(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        """Nodes that the pod names by their field."""
        terms = self.constraints.required or ()
        if terms and all([any([e.field and e.operator == "In" for e in term]) for term in terms]):
            yield Check(AFFINITY, matches_any(terms, nodes, rows), terms)

    def status(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        """Cordons and taints. Pressure of a node is read from its taints, as the scheduler does."""
        bits = self._bits.of(nodes, rows)
        if self.switches.passing:
            yield Check(CORDONED, bits & _CORDON == 0)
            yield Check(NOT_READY, bits & _PASSING == 0, self.untolerated)
        yield Check(TAINTED, bits & _LASTING == 0, self.untolerated)

    def selection(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        """Node selector and required node affinity."""
        if selector := self.constraints.selector:
            yield Check(SELECTOR, matches(selector, nodes, rows), (selector,))
        if (required := self.constraints.required) is not None:
            yield Check(AFFINITY, matches_any(required, nodes, rows), required)

    def resources(self, nodes: Nodes, rows: Rows, gpus: Gpus, free: Mapping[str, Integers]) -> Iterator[Check]:
        """Amounts, GPUs first."""
        capacity, nothing = nodes.columns.capacity, np.zeros(nodes.columns.size, np.int64)
        for name, amount in sorted(self._requests, key=lambda each: gpus.kind(each[0]) is None):
            word, offered = _INSUFFICIENT.get(name, _OTHER), capacity.get(name, nothing)[rows] > 0
            enough: Mask = free.get(name, nothing)[rows] >= amount
            if name in self._claimed:
                enough = enough | ~offered
            elif gpus.kind(name) is not None:
                word = TOO_FEW
                if nodes.dra and not self.pod_requests.devices:
                    yield Check(BY_DRA, offered | ~nodes.by_dra()[rows], (name, amount))
                yield Check(NO_GPU, offered, (name, amount))
            yield Check(word, enough, (name, amount))

    def untolerated(self, taints: Iterable[Taint]) -> list[Taint]:
        """The taints of a node that keep the pod away, without that of a cordon."""
        return [taint for taint in taints if taint.key != CORDON.key and not self.constraints.admits(taint)]

    def peers(self, rules: PeerRules, nodes: Nodes, rows: NDArray[np.intp], peers: Peers) -> Iterator[Check]:
        """Required anti-affinity and spread among the pods of one owner. `peers`: how many of them are on each row.

        A domain may have `step` pods more than the eligible domain with fewest. A node counts for that if it has the labels of
        all required constraints (podtopologyspread/filtering.go).
        """
        required = [rule for rule in rules.rules if rule.required]
        if not required:
            return
        every = np.arange(nodes.columns.rows)
        domains = {rule.key: domains_of(nodes, rule.key) for rule in required}
        labelled = nodes.columns.alive[every].copy()
        for rule in required:
            labelled &= domains[rule.key].of_row[every] > 0 if rule.spread else True
        for rule in required:
            of_row, counts = domains[rule.key].of_row, domains[rule.key].counts(*arrays_of(peers))
            of_rows = of_row[rows]
            if not rule.spread:
                yield Check(PEERS, (of_rows == 0) | (counts[of_rows] == 0), rule)
                continue
            eligible = labelled.copy()
            if not rule.anywhere:
                eligible &= self._by_author(nodes, every)
            if rule.tolerated_only:
                eligible &= self._bits.of(nodes, every) & (_CORDON | _PASSING | _LASTING) == 0
            there = np.bincount(of_row[every[eligible]]).nonzero()[0]
            fewest = int(counts[there].min()) if len(there) >= max(1, rule.least_domains) else 0
            yield Check(PEERS, (of_rows > 0) & (counts[of_rows] + 1 - fewest <= rule.step), rule)

    def _volumes(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        for terms in self.volumes:
            yield Check(VOLUME, matches_any(terms, nodes, rows), terms)

    def _claimed_elsewhere(self, nodes: Nodes, rows: Rows) -> Iterator[Check]:
        for terms in self._claims:
            yield Check(CLAIM, matches_any(terms, nodes, rows), terms)

    # --- status and health --------------------------------------------------------------------------------------------

    def _bits_of(self, status: Status) -> int:
        tolerates_cordon, bits = self.constraints.tolerates_cordon, 0
        if status.cordoned and not tolerates_cordon:
            bits |= _CORDON
        for taint in status.taints:
            if not self.constraints.admits(taint):
                bits |= _CORDON if taint.key == CORDON.key else _PASSING if passes(taint) else _LASTING
        if ("Ready", "True") not in status.conditions:
            bits |= _DOWN
        health = self.switches.health
        if health is not None and not status.conditions.isdisjoint(health.conditions.items()):
            bits |= _ILL
        return bits

    def _penalty_of(self, status: Status) -> int:
        penalty = min(self.constraints.soft(status.taints), _MAX_SOFT_TAINTS)
        problem = any([t.key.startswith(KUBERNETES[0]) for t in status.taints])
        if status.cordoned or problem or not _PRESSURE.isdisjoint(status.conditions):
            penalty += _MAX_SOFT_TAINTS + 1
        if any([kind_of(t) == "leaving" for t in status.taints]):
            penalty += 2 * (_MAX_SOFT_TAINTS + 1)
        return penalty

    def _healthy(self, nodes: Nodes, rows: Rows) -> Mask:
        """Which of `rows` have no label of an unhealthy node."""
        mask = np.ones(nodes.columns.alive[rows].shape, bool)
        for key, values in self.switches.health.labels.items() if self.switches.health is not None else ():
            column = nodes.labels.column(key)
            if column is not None:
                healthy = np.ones(len(column.values), bool)
                if "*" in values:
                    healthy[1:] = False
                healthy[[column.ids[value] for value in values if value in column.ids]] = False
                mask &= healthy[column.padded(nodes.columns.size)[rows]]
        return mask


def for_any_pod(health: Health) -> Feasible:
    """Says what is wrong with nodes for any pod."""
    return Feasible(NO_CONSTRAINTS, switches=Switches(health=health))
