"""Leaves room for pods that can go to few nodes only, and excludes nodes by anti-affinity of other pods.

Packing fills nodes one after the other, where the default scheduler would leave some room on each. A pod that can go to
one node only would find that node full. So a pod that can go to more nodes ranks nodes first where it leaves room, and
among equal nodes those that are needed less,

- for pods that wait, have no reservation, and are confined to at most `_FEW` nodes by selector, affinity or volumes, and
- for pods that will come for a disk of the node which is claimed but not in use: one GPU, as nobody knows how many.

A pod to which waiting pods have required affinity goes where there is room for these too. Nodes are excluded if a pod
there has required anti-affinity to this one: the scheduler would not use them.

Follows k8s.io/kubernetes pkg/scheduler/framework/plugins/{interpodaffinity,volumebinding}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from webhook.cluster.node_table import LAST, Floats
from webhook.cluster.other_pods import ANY, ConfinedPod
from webhook.cluster.pods import HOSTNAME
from webhook.cluster.state import ClusterState
from webhook.placement.constraints import Mask
from webhook.placement.filters import Filter
from webhook.placement.gangs import room_for
from webhook.placement.node_scores import NodeScores
from webhook.placement.peer_rules import Tier, domains_of
from webhook.placement.request import PlacementRequest
from webhook.placement.volumes import VolumeClaims, VolumeTopology, volume_topology

_FEW: Final = 4
"""A pod is confined if it can go to at most so many nodes."""
_MAX_KINDS: Final = 64
"""Maximum number of kinds of waiting pods that count: those with most pods."""
_MAX_TERMS: Final = 256
"""Maximum number of anti-affinity terms about one namespace that count."""
_HOST_FIELDS: Final = (("matchExpressions", HOSTNAME), ("matchFields", "metadata.name"))
FilterOf = Callable[[bytes, VolumeTopology], Filter | None]


class _Nodes(NamedTuple):
    """The nodes that waiting pods may use, whatever is free there."""

    passes: Mask
    """By row, whether it is one of these."""
    few: tuple[int, ...]
    """Their rows if they are at most `_FEW`, else ()."""


class Waiting:
    """The needs of waiting pods in one cluster state. `filter_of` makes the filter for a `spec_json` and volumes."""

    def __init__(self, state: ClusterState, filter_of: FilterOf) -> None:
        self._state = state
        self._filter_of = filter_of
        self._seen: tuple[int, ...] = ()
        self._nodes: dict[tuple[ConfinedPod, bytes], _Nodes | None] = {}
        """By kind of waiting pod, and key of its volumes. Saves 0.2 ms for each kind at 20,000 nodes, until a node changes."""
        self._with_affinity: list[tuple[ConfinedPod, int, Mask]] = []
        """Waiting pods with pod affinity, their number, and the rows that they may use."""
        self._needs: dict[tuple[str, int], dict[int, float]] = {}
        """By resource and number of nodes that waiting pods are confined to: by row, the amount that they need there."""
        self._disks: dict[int, float] = {}
        """By row, the GPUs to leave for pods that will come for its disks."""

    def tiers(self, request: PlacementRequest, scores: NodeScores) -> tuple[list[Tier], list[Tier]]:
        """Two lists of tiers of `scores.rows`.

        First, room for waiting pods with affinity to this pod, then room for pods confined to fewer nodes. Second, to rank by
        right before the score, among nodes that the score does not put last: nodes that waiting pods need less; then, for a
        pod that its volumes or peers confine to few nodes, those with most room. Often several such pods come, and the next
        one would wait for a node that is full to the last GPU.
        """
        self._refresh()
        columns, rows, gpu = self._state.nodes.columns, scores.rows, scores.gpu
        labels, of_namespace = dict(request.labels), self._labels_of(request.namespace)
        tiers = [
            self._room_tier(waiting, pods, passes, request, rows)
            for waiting, pods, passes in self._with_affinity
            if all([term.matches(request.namespace, labels, of_namespace) for term in waiting.affinity])
        ]
        last: list[Tier] = []
        if gpu is None or gpu not in columns.free:
            return tiers, last
        needed = self._needed(gpu, scores)
        if needed is not None:
            tiers.append(columns.free[gpu][rows] - request.demand.amount(gpu) < needed)
            last.append(needed)
        if (request.peer_rules.confines or scores.filter.volumes) and scores.passing <= _FEW:
            last.append(-columns.free[gpu][rows])
        return tiers, [scores.score < -LAST / 2, *last] if last else last

    def _needed(self, gpu: str, scores: NodeScores) -> Floats | None:
        """For each of `scores.rows`, the GPUs that pods with fewer nodes than this one need there; None: 0 for all."""
        if not (self._needs or self._disks):
            return None
        fewer = range(1, min(_FEW + 1, scores.passing))
        needs = [self._needs[gpu, few] for few in fewer if (gpu, few) in self._needs]
        if not (needs or self._disks):
            return None
        needed = np.zeros(self._state.nodes.columns.size)
        for by_row in (self._disks, *needs):
            needed[list(by_row)] += list(by_row.values())
        return needed[scores.rows]

    def excluded(self, request: PlacementRequest, rows: NDArray[np.intp]) -> Mask | None:
        """Which of `rows` anti-affinity of other pods excludes; None: none."""
        anti_affinity, nodes = self._state.other_pods.anti_affinity, self._state.nodes
        excluded: Mask | None = None
        if not anti_affinity:
            return None
        labels, of_namespace = dict(request.labels), self._labels_of(request.namespace)
        for namespace in (request.namespace, ANY):
            terms = anti_affinity.get(namespace, {})
            for term in list(terms)[:_MAX_TERMS]:
                if term.matches(request.namespace, labels, of_namespace):
                    domains = domains_of(nodes, term.topology_key)
                    taken = {int(domains[nodes.row_of[name]]) for name in terms[term] if name in nodes.row_of} - {0}
                    mask = np.isin(domains[rows], list(taken))
                    excluded = mask if excluded is None else excluded | mask
        return excluded

    def _labels_of(self, namespace: str) -> Any:
        return self._state.namespaces.get(namespace) or {}

    def _room_tier(
        self, waiting: ConfinedPod, pods: int, passes: Mask, request: PlacementRequest, rows: NDArray[np.intp]
    ) -> Tier:
        """Minus the number of waiting pods that have room in the domain of each row once this pod is on the row."""
        nodes = self._state.nodes
        passing = np.flatnonzero(passes)
        now, then = np.zeros(nodes.columns.size), np.zeros(nodes.columns.size)
        now[passing] = np.maximum(room_for(nodes, passing, waiting.demand), 0)
        then[passing] = np.maximum(room_for(nodes, passing, waiting.demand, beside=request.demand), 0)
        room = np.full(len(rows), float(pods))
        for term in waiting.affinity:
            domains = domains_of(nodes, term.topology_key)
            total = np.bincount(domains, weights=now)
            total[0] = 0
            np.minimum(room, total[domains[rows]] - (now - then)[rows], out=room)
        return -room

    # --- the needs of waiting pods ------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        state = self._state
        nodes = state.nodes.changes.position, state.nodes.columns.size
        seen = *nodes, state.other_pods.version, state.volume_claims.version, state.volumes.version
        if seen == self._seen:
            return
        if nodes != self._seen[:2]:
            self._nodes.clear()
        self._seen = seen
        self._with_affinity, self._needs, self._disks = [], {}, dict(self._unused_disks())
        for waiting, pods in Counter(state.other_pods.waiting.values()).most_common(_MAX_KINDS):
            usable = self._nodes_of(waiting)
            if usable is None:
                continue
            if waiting.affinity:
                self._with_affinity.append((waiting, pods, usable.passes))
            for row in usable.few:
                for resource, amount in waiting.demand.requests:
                    by_row = self._needs.setdefault((resource, len(usable.few)), {})
                    by_row[row] = by_row.get(row, 0.0) + pods * amount / len(usable.few)

    def _nodes_of(self, waiting: ConfinedPod) -> _Nodes | None:
        """The nodes that a waiting pod may use; None if that cannot be told."""
        volumes = volume_topology(VolumeClaims(waiting.volume_claims), self._state)
        key = waiting, volumes.key
        if key not in self._nodes:
            if len(self._nodes) >= 2 * _MAX_KINDS:
                self._nodes.clear()
            pod_filter = self._filter_of(waiting.spec_json, volumes)
            self._nodes[key] = None if pod_filter is None else self._filtered(pod_filter, waiting)
        return self._nodes[key]

    def _filtered(self, pod_filter: Filter, waiting: ConfinedPod) -> _Nodes:
        nodes = self._state.nodes
        passes = pod_filter.mask(nodes, slice(0, nodes.columns.size))
        for resource, amount in waiting.demand.requests:
            if resource in nodes.columns.capacity:
                passes &= nodes.columns.capacity[resource] >= amount
        rows = np.flatnonzero(passes)
        return _Nodes(passes, tuple(rows.tolist()) if len(rows) <= _FEW else ())

    def _unused_disks(self) -> Iterator[tuple[int, float]]:
        """The rows with disks that are claimed, or may be, and not in use; and how many GPUs to leave there."""
        state = self._state
        hosts: dict[str, float] = {}
        for host, pods in self._disks_by_host():
            hosts[host] = hosts.get(host, 0.0) + pods
        column = state.nodes.labels.column(HOSTNAME) if hosts else None
        if column is not None:
            wanted = {column.ids[host]: pods for host, pods in hosts.items() if host in column.ids}
            codes = column.padded(state.nodes.columns.size)
            for row in np.flatnonzero(np.isin(codes, list(wanted))).tolist():
                yield row, wanted[codes.item(row)]

    def _disks_by_host(self) -> Iterator[tuple[str, float]]:
        """For each claim that no pod uses, the host of its disk with 1; if it is not bound, the hosts of disks that it may
        get with a part each, if these are few."""
        state = self._state
        unused = [
            claim for name, claim in state.volume_claims.items() if name not in state.other_pods.volume_claims_in_use
        ]
        for claim in unused:
            if (volume := state.volumes.get(claim.volume)) and (host := _host(volume.terms)):
                yield host, 1.0
        claims_by_class = Counter([claim.storage_class for claim in unused if claim.storage_class])
        hosts_by_class: dict[str, list[str]] = {name: [] for name in claims_by_class}
        for volume in state.volumes.values() if hosts_by_class else ():
            if volume.storage_class in hosts_by_class:
                hosts_by_class[volume.storage_class].append(_host(volume.terms))
        for name, hosts in hosts_by_class.items():
            if len(hosts) <= _FEW and all(hosts):
                for host in hosts:
                    yield host, min(1.0, claims_by_class[name] / len(hosts))


@lru_cache(maxsize=4096)
def _host(text: str) -> str:
    """The hostname of the one node that a volume with these terms is on; "" if there may be more."""
    named = [
        {value for field, key in _HOST_FIELDS for e in term.get(field) or () if _names(e, key) for value in e["values"]}
        for term in orjson.loads(text or "[]")
    ]
    hostnames: set[str] = set().union(*named)
    return next(iter(hostnames)) if len(hostnames) == 1 and all(named) else ""


def _names(expression: Any, key: str) -> bool:
    return bool(expression.get("key") == key and expression.get("operator") == "In" and expression.get("values"))
