"""What a pod says about other pods, and which nodes that leaves to it.

The labels of other pods are not kept here. But most rules are about a pod's own replicas: they must share a zone, must not
share a host, are spread over racks, or take the same host port. A rule whose selector matches the pod itself matches its peers,
and their nodes are known. So nodes where the scheduler would not let the pod go come last, and the first of several pods that
must share a domain goes to one with room for all of them.

A rule about other pods than these is left to the scheduler, with the node: a required one leaves few nodes, which need not be
among those that are ranked, and a preferred one would be outweighed.

Follows k8s.io/kubernetes pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread,nodeports}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node_table import Demand, Integers
from webhook.cluster.nodes import Nodes
from webhook.cluster.pods import HOSTNAME
from webhook.kube.pod import PREFERRED, Pod, labels_of
from webhook.kube.selectors import compiled, selects
from webhook.placement.gangs import room_for

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SOFT: Final = "ScheduleAnyway"
_MAX_RULES: Final = 8
"""Rules of one pod that are looked at."""
Peers = Mapping[int, int]
"""How many pods of the owner are on a row."""
Tier = NDArray[Any]
"""For each of some rows a number: the lower, the earlier it comes."""


class Company(NamedTuple):
    """What the pods of one template say about each other. The strings are keys of node labels."""

    together: tuple[str, ...] = ()
    """All of them are in one domain."""
    apart: tuple[str, ...] = ()
    """No two of them are in one domain."""
    even: tuple[tuple[str, int], ...] = ()
    """No domain has so many more of them than another (maxSkew)."""
    rather_together: tuple[tuple[str, int], ...] = ()
    """Each domain that has some of them is preferred, with such a weight for each."""
    rather_apart: tuple[tuple[str, int], ...] = ()
    """As few of them in each domain as possible, counted in steps of so many (maxSkew)."""
    left: str = ""
    """Why the node is left to the scheduler; "" where it is not."""

    @property
    def confines(self) -> bool:
        """Whether the scheduler keeps them off some nodes because of these rules."""
        return bool(self.together or self.apart or self.even)

    def on_one_host(self) -> Company:
        """The same, with all of them on one host."""
        return self if HOSTNAME in self.together else self._replace(together=(*self.together, HOSTNAME))


ALONE: Final = Company()


def company_of(pod: Pod) -> Company:
    """What `pod` says about other pods."""
    spec = pod["spec"]
    affinity, spread = spec.get("affinity") or {}, spec.get("topologySpreadConstraints") or ()
    towards, away = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    ports = takes_a_port(spec)
    if not (towards or away or spread or ports):
        return ALONE
    together, requires_others = _keys(pod, towards.get(_REQUIRED) or ())
    if requires_others:
        return Company(left="required affinity to other pods")
    rather_together, prefers_others = _weighed_keys(pod, towards.get(PREFERRED) or ())
    rather_apart, avoids_others = _weighed_keys(pod, away.get(PREFERRED) or ())
    if avoids_others or prefers_others:
        return Company(left="preferred affinity to other pods")
    own = [constraint for constraint in spread[:_MAX_RULES] if _takes(pod, constraint.get("labelSelector"))]
    even, wished = [
        [
            (str(c.get("topologyKey")), int(c.get("maxSkew") or 1))
            for c in own
            if (c.get("whenUnsatisfiable") == _SOFT) is soft
        ]
        for soft in (False, True)
    ]
    return Company(
        together,
        (*_keys(pod, away.get(_REQUIRED) or ())[0], *([HOSTNAME] if ports else ())),
        tuple(even),
        rather_together,
        (*[(key, 1) for key, _ in rather_apart], *wished),
    )


def takes_a_port(spec: Mapping[str, Any]) -> bool:
    """Whether a container takes a port of its node."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any([port.get("hostPort") for container in containers for port in container.get("ports") or ()])


def _keys(pod: Pod, terms: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], bool]:
    """The topology keys of the terms that take the pod itself; and whether there are others."""
    listed = list(terms)
    own = [term for term in listed[:_MAX_RULES] if not _elsewhere(pod, term) and _takes(pod, term.get("labelSelector"))]
    return tuple([str(term.get("topologyKey")) for term in own]), len(own) < len(listed)


def _weighed_keys(pod: Pod, terms: Iterable[Mapping[str, Any]]) -> tuple[tuple[tuple[str, int], ...], bool]:
    """As `_keys`, of preferred terms: with the weight of each, the heaviest first."""
    listed = sorted(terms, key=lambda term: -int(term.get("weight") or 0))
    keys, has_others = _keys(pod, [term.get("podAffinityTerm") or {} for term in listed])
    weights = [int(term.get("weight") or 0) for term in listed]
    return () if has_others else tuple(zip(keys, weights, strict=True)), has_others


def _elsewhere(pod: Pod, term: Mapping[str, Any]) -> bool:
    """Whether a term is about pods of other namespaces, or of its own workload no more than of others: those that have another
    value of a label in `mismatchLabelKeys`. With the selector {} all namespaces are meant, its own among them."""
    namespaces, selector = term.get("namespaces"), term.get("namespaceSelector")
    own = (
        selector == {}
        or (selector is None and not namespaces)
        or pod["metadata"].get("namespace") in (namespaces or ())
    )
    return not own or not labels_of(pod).keys().isdisjoint(term.get("mismatchLabelKeys") or ())


def _takes(pod: Pod, selector: Mapping[str, Any] | None) -> bool:
    return bool(selects(compiled(selector), labels_of(pod)))


def company_tiers(
    company: Company,
    nodes: Nodes,
    rows: NDArray[np.intp],
    fits: NDArray[np.bool_],
    demand: Demand,
    pods: int,
    peers: Peers,
) -> list[Tier]:
    """The tiers of `rows`, the nodes that the filter lets pass. `fits`: where there is room for the pod now.
    `pods`: how many there are to be, 1 where that is not known. `peers`: how many there are, by row."""
    tiers: list[Tier] = []
    if not len(rows):
        return tiers
    for key in company.together:
        codes = domains_of(nodes, key)
        if peers:
            tiers.append(_there(codes, peers)[codes[rows]] == 0)
            continue
        rooms = _rooms(company, nodes, demand, peers, rows[fits], codes)
        tiers.append(-(np.minimum(rooms, pods) if pods > 1 else rooms)[codes[rows]])
    for key in company.apart:
        codes = domains_of(nodes, key)
        tiers.append(_there(codes, peers)[codes[rows]] > 0)
    for key, skew in company.even:
        codes = domains_of(nodes, key)
        there = _there(codes, peers)[codes[rows]]
        tiers.append((there + 1 - there.min() > skew) | (codes[rows] == 0))
    if peers and company.rather_together:
        liked = np.zeros(len(rows), np.int64)
        for key, weight in company.rather_together:
            codes = domains_of(nodes, key)
            liked += weight * _there(codes, peers)[codes[rows]]
        tiers.append(-liked)
    for key, _ in company.rather_together if pods > 1 and not peers else ():
        codes = domains_of(nodes, key)
        rooms = _rooms(company, nodes, demand, peers, rows[fits], codes)
        tiers.append(-np.minimum(rooms, pods)[codes[rows]])
    for key, step in company.rather_apart:
        codes = domains_of(nodes, key)
        tiers.append(_there(codes, peers)[codes[rows]] // step)
    return tiers


def _rooms(
    company: Company, nodes: Nodes, demand: Demand, peers: Peers, rows: NDArray[np.intp], codes: Integers
) -> Integers:
    """By number of a domain, how many pods its `rows` take."""
    room = room_beside(company, nodes, demand, peers, rows, codes)
    rooms = np.bincount(codes[rows], weights=room, minlength=codes.max() + 1).astype(np.int64)
    rooms[0] = 0
    return rooms


def room_beside(
    company: Company, nodes: Nodes, demand: Demand, peers: Peers, rows: NDArray[np.intp], codes: NDArray[Any]
) -> Integers:
    """How many pods each of `rows` takes under the rules of `apart` and `even`. Rows that share a domain of such a rule, and one
    of the domains in `codes`, are counted on the first of them."""
    room: Integers = room_for(nodes, rows, demand)
    if not len(rows):
        return room
    for key, allowed, hard_spread in (
        *[(k, 1, False) for k in company.apart],
        *[(k, n, True) for k, n in company.even],
    ):
        domains = domains_of(nodes, key)
        there = _there(domains, peers)[domains[rows]]
        left = np.maximum(allowed + (there.min() if hard_spread else 0) - there, 0)
        if key == HOSTNAME:
            room = np.minimum(room, left)
            continue
        pairs = codes[rows].astype(np.int64) * (int(domains.max()) + 1) + domains[rows]
        _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
        together = np.zeros_like(room)
        together[first] = np.minimum(np.bincount(which, weights=room), left[first])
        room = np.where(domains[rows] == 0, 0 if hard_spread else room, together)
    return room


def domains_of(nodes: Nodes, key: str) -> Integers:
    """By row, the number of its domain; 0 where it is in none."""
    size = nodes.columns.size
    if key == HOSTNAME:
        return np.arange(1, size + 1)
    column = nodes.labels.column(key)
    return np.zeros(size, np.int64) if column is None else column.padded(size)[:size].astype(np.int64)


def _there(codes: Integers, peers: Peers) -> Integers:
    """By number of a domain, how many of the peers are there."""
    counts = np.zeros(int(codes.max()) + 1, np.int64)
    for row, count in peers.items():
        counts[codes[row]] += count
    counts[0] = 0
    return counts
