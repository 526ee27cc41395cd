"""Room for pods that can go to few nodes, and nodes whose pods have anti-affinity to this one.

Packing fills nodes one after the other, where the stock scheduler would leave some room on each: a pod that can go to one node
only would find just that one full. So a pod that can go to more nodes first takes one where it leaves room, and of nodes that
are else as good one that is less needed,

- for pods that wait, have no reservation, and are tied to at most `_FEW` nodes by selector, affinity or volumes, and
- for whoever comes for a disk of that node which is claimed, and which no pod uses: one GPU, as nobody knows how many.

A pod that others wait for, since they must be with one like it, goes where there is room for these too. And nodes are left out
where a pod has required anti-affinity to this one: the scheduler would not take them.

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
from webhook.cluster.other_pods import ANY, Tied
from webhook.cluster.pods import HOSTNAME
from webhook.cluster.state import ClusterState
from webhook.placement.company import domains_of
from webhook.placement.constraints import Mask
from webhook.placement.filters import Filter
from webhook.placement.gangs import room_for
from webhook.placement.node_scores import NodeScores
from webhook.placement.request import PlacementRequest
from webhook.placement.volumes import Claims, Where, where

_FEW: Final = 4
_MAX_KINDS: Final = 64
"""Kinds of waiting pods that are looked at."""
_MAX_TERMS: Final = 256
"""Terms about pods of one namespace that are looked at."""
_HOST_FIELDS: Final = (("matchExpressions", HOSTNAME), ("matchFields", "metadata.name"))
Tier = NDArray[Any]
FilterOf = Callable[[bytes, Where], Filter | None]


class _Place(NamedTuple):
    """Where pods that wait may go, whatever is free there."""

    passes: Mask
    """By row."""
    few: tuple[int, ...]
    """Those rows, where they are few."""


class Waiting:
    """Beside one cluster state. `filter_of`: makes the filter of what a pod states and of its volumes."""

    def __init__(self, state: ClusterState, filter_of: FilterOf) -> None:
        self._state = state
        self._filter_of = filter_of
        self._seen: tuple[int, ...] = ()
        self._places: dict[tuple[Tied, bytes], _Place | None] = {}
        """By what is stated, and the volumes. They save 0.2 ms for each kind at 20,000 nodes, until a node changes."""
        self._seeking: list[tuple[Tied, int, Mask]] = []
        """Pods that wait for others, how many, and where they may go."""
        self._needs: dict[tuple[str, int], dict[int, float]] = {}
        """By GPU resource and the number of nodes that pods are tied to: by row, what they need there."""
        self._disks: dict[int, float] = {}
        """By row, the GPUs to be left for those who come for its disks."""

    def tiers(self, request: PlacementRequest, scores: NodeScores) -> list[Tier]:
        """The tiers of the rows of `scores`: first nodes with room for pods that wait for this one, as all of their terms mean
        it, then nodes where room is left for pods that can go to fewer nodes."""
        self._refresh()
        rows, gpu = scores.rows, scores.gpu
        labels, of_namespace = dict(request.labels), self._labels_of(request.namespace)
        tiers = [
            self._beside(tied, pods, passes, request, rows)
            for tied, pods, passes in self._seeking
            if all([term.means(request.namespace, labels, of_namespace) for term in tied.near])
        ]
        needed = self._needed(scores)
        if needed is not None and gpu is not None:
            tiers.append(self._state.nodes.columns.free[gpu][rows] - request.demand.amount(gpu) < needed)
        return tiers

    def last_tiers(self, request: PlacementRequest, scores: NodeScores) -> list[Tier]:
        """The tiers right before the score, among nodes that it does not put last: those that waiting pods need least; and for
        a pod that its volumes or its peers leave few nodes, those with most room. Often several such pods come, and the next
        of them would wait for a node that is full to the last GPU."""
        columns, gpu = self._state.nodes.columns, scores.gpu
        needed = self._needed(scores)
        tiers: list[Tier] = [] if needed is None else [needed]
        confined = request.company.confines or scores.filter.volumes
        if gpu in columns.free and confined and scores.passing <= _FEW:
            tiers.append(-columns.free[gpu][scores.rows])
        return [scores.score < -LAST / 2, *tiers] if tiers else []

    def _needed(self, scores: NodeScores) -> Floats | None:
        """For each row, the GPUs that pods need there which can go to fewer nodes than this one; None: 0 for all."""
        columns, gpu = self._state.nodes.columns, scores.gpu
        if gpu is None or gpu not in columns.free:
            return None
        if not (self._needs or self._disks):
            return None
        fewer = range(1, min(_FEW + 1, scores.passing))
        needs = [self._needs[gpu, few] for few in fewer if (gpu, few) in self._needs]
        if not (needs or self._disks):
            return None
        needed = np.zeros(columns.size)
        for by_row in (self._disks, *needs):
            needed[list(by_row)] += list(by_row.values())
        return needed[scores.rows]

    def unwanted(self, request: PlacementRequest, rows: NDArray[np.intp]) -> Mask | None:
        """Which of `rows` have a pod in their domain that keeps this one away; None: none has."""
        away, nodes = self._state.other_pods.away, self._state.nodes
        unwanted: Mask | None = None
        labels, of_namespace = dict(request.labels), self._labels_of(request.namespace)
        for namespace in (request.namespace, ANY) if away else ():
            terms = away.get(namespace, {})
            for term in list(terms)[:_MAX_TERMS]:
                if term.means(request.namespace, labels, of_namespace):
                    domains = domains_of(nodes, term.key)
                    there = {int(domains[nodes.row_of[name]]) for name in terms[term] if name in nodes.row_of} - {0}
                    bad = np.isin(domains[rows], list(there))
                    unwanted = bad if unwanted is None else unwanted | bad
        return unwanted

    def _labels_of(self, namespace: str) -> Any:
        return self._state.namespaces.get(namespace) or {}

    def _beside(self, tied: Tied, pods: int, passes: Mask, request: PlacementRequest, rows: NDArray[np.intp]) -> Tier:
        """For how many of the pods that wait there is no room in the domain of each row, once this pod is there."""
        nodes = self._state.nodes
        passing = np.flatnonzero(passes)
        now, then = np.zeros(nodes.columns.size), np.zeros(nodes.columns.size)
        now[passing] = np.maximum(room_for(nodes, passing, tied.demand), 0)
        then[passing] = np.maximum(room_for(nodes, passing, tied.demand, beside=request.demand), 0)
        room = np.full(len(rows), float(pods))
        for term in tied.near:
            domains = domains_of(nodes, term.key)
            in_all = np.bincount(domains, weights=now)
            in_all[0] = 0
            np.minimum(room, in_all[domains[rows]] - (now - then)[rows], out=room)
        return -room

    # --- what is known of those that wait -----------------------------------------------------------------------------

    def _refresh(self) -> None:
        state = self._state
        nodes = state.nodes.changes.position, state.nodes.columns.size
        seen = *nodes, state.other_pods.version, state.claims.version, state.volumes.version
        if seen == self._seen:
            return
        if nodes != self._seen[:2]:
            self._places.clear()
        self._seen = seen
        self._seeking, self._needs, self._disks = [], {}, dict(self._awaited())
        for tied, pods in Counter(state.other_pods.waiting.values()).most_common(_MAX_KINDS):
            place = self._place(tied)
            if place is None:
                continue
            if tied.near:
                self._seeking.append((tied, pods, place.passes))
            for row in place.few:
                for resource, amount in tied.demand.requests:
                    by_row = self._needs.setdefault((resource, len(place.few)), {})
                    by_row[row] = by_row.get(row, 0.0) + pods * amount / len(place.few)

    def _place(self, tied: Tied) -> _Place | None:
        """None where nobody can tell."""
        volumes = where(Claims(tied.claims), self._state)
        key = tied, volumes.key
        if key not in self._places:
            if len(self._places) >= 2 * _MAX_KINDS:
                self._places.clear()
            static = self._filter_of(tied.stated, volumes)
            self._places[key] = None if static is None else self._new_place(static, tied)
        return self._places[key]

    def _new_place(self, static: Filter, tied: Tied) -> _Place:
        nodes = self._state.nodes
        passes = static.mask(nodes, slice(0, nodes.columns.size))
        for resource, amount in tied.demand.requests:
            if resource in nodes.columns.capacity:
                passes &= nodes.columns.capacity[resource] >= amount
        few = np.count_nonzero(passes) <= _FEW
        return _Place(passes, tuple(np.flatnonzero(passes).tolist()) if few else ())

    def _awaited(self) -> Iterator[tuple[int, float]]:
        """The rows whose disks are claimed and not used, or may become so, and how many GPUs to leave there."""
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
        """For each claim that no pod uses the host of its disk; the hosts of few disks that it may get, with a part each."""
        state = self._state
        unused = [claim for name, claim in state.claims.items() if name not in state.other_pods.used]
        for claim in unused:
            if (volume := state.volumes.get(claim.volume)) and (host := _host(volume.terms)):
                yield host, 1.0
        waits_for = Counter([claim.waits_for for claim in unused if claim.waits_for])
        offered: dict[str, list[str]] = {name: [] for name in waits_for}
        for volume in state.volumes.values() if offered else ():
            if volume.offered in offered:
                offered[volume.offered].append(_host(volume.terms))
        for name, hosts in offered.items():
            if len(hosts) <= _FEW and all(hosts):
                for host in hosts:
                    yield host, min(1.0, waits_for[name] / len(hosts))


@lru_cache(maxsize=4096)
def _host(text: str) -> str:
    """The one node on which a volume with these terms is, by its hostname; "" where there may be more."""
    named = [
        {value for field, key in _HOST_FIELDS for e in term.get(field) or () if _names(e, key) for value in e["values"]}
        for term in orjson.loads(text or "[]")
    ]
    hostnames: set[str] = set().union(*named)
    return next(iter(hostnames)) if len(hostnames) == 1 and all(named) else ""


def _names(expression: Any, key: str) -> bool:
    return bool(expression.get("key") == key and expression.get("operator") == "In" and expression.get("values"))
