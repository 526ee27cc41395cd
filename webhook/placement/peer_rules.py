"""What a pod states about its peers (pod affinity, spread constraints, host ports), and which nodes that leaves to it.

The labels of other pods are not kept here. But most rules are about a pod's own peers: they must share a zone, must not share a
host, are spread over racks, or take the same host port. A rule whose selector matches the pod itself matches its peers, and the
nodes of these are known. So nodes where the scheduler would not let the pod go rank last, and the first of several pods that
must share a domain goes to one with room for all of them.

Rules about other pods are left to the scheduler: no node is chosen for such a pod. A required rule leaves few nodes, which may
not be among the ranked ones, and the weights of the ranked nodes would outweigh a preferred rule.

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
from webhook.kube.pod import PREFERRED, REQUIRED, Pod, labels_of
from webhook.kube.selectors import compiled, selects
from webhook.placement.gangs import room_for

_SOFT: Final = "ScheduleAnyway"
_MAX_RULES: Final = 8
"""Maximum number of rules of each kind that one pod may have here."""
Peers = Mapping[int, int]
"""Number of pods of the owner by row."""
Tier = NDArray[Any]
"""A number for each of some rows: rows with lower numbers rank first, whatever their score."""


class PeerRules(NamedTuple):
    """What the pods of one template state about each other. The strings are keys of node labels: topology keys."""

    affinity: tuple[str, ...] = ()
    """All of them must be in one domain."""
    anti_affinity: tuple[str, ...] = ()
    """No two of them may be in one domain."""
    hard_spread: tuple[tuple[str, int], ...] = ()
    """Topology key and maxSkew: no domain may have so many more of them than another."""
    preferred_affinity: tuple[tuple[str, int], ...] = ()
    """Topology key and weight: domains with more of them are preferred."""
    soft_spread: tuple[tuple[str, int], ...] = ()
    """Topology key and maxSkew: domains with fewer of them are preferred, counted in steps of maxSkew."""
    left: str = ""
    """Why the choice of a node is left to the scheduler; "" if it is not."""

    @property
    def confines(self) -> bool:
        """Whether the scheduler keeps the pods off some nodes because of these rules."""
        return bool(self.affinity or self.anti_affinity or self.hard_spread)

    def on_one_host(self) -> PeerRules:
        """These rules, with all pods on one host."""
        return self if HOSTNAME in self.affinity else self._replace(affinity=(*self.affinity, HOSTNAME))


NO_PEER_RULES: Final = PeerRules()


def peer_rules_of(pod: Pod) -> PeerRules:
    """What `pod` states about its peers."""
    spec = pod["spec"]
    stated, spread = spec.get("affinity") or {}, spec.get("topologySpreadConstraints") or ()
    affinity, anti_affinity = stated.get("podAffinity") or {}, stated.get("podAntiAffinity") or {}
    host_port = _has_host_port(spec)
    if not (affinity or anti_affinity or spread or host_port):
        return NO_PEER_RULES
    required, requires_others = _keys(pod, affinity.get(REQUIRED) or ())
    if requires_others:
        return PeerRules(left="required affinity to other pods")
    preferred, prefers_others = _weighted_keys(pod, affinity.get(PREFERRED) or ())
    avoided, avoids_others = _weighted_keys(pod, anti_affinity.get(PREFERRED) or ())
    if avoids_others or prefers_others:
        return PeerRules(left="preferred affinity to other pods")
    excluded, _ = _keys(pod, anti_affinity.get(REQUIRED) or ())
    own = [constraint for constraint in spread[:_MAX_RULES] if _selects(constraint.get("labelSelector"), pod)]
    skews = [(str(c.get("topologyKey")), int(c.get("maxSkew") or 1), c.get("whenUnsatisfiable") == _SOFT) for c in own]
    return PeerRules(
        affinity=required,
        anti_affinity=(*excluded, HOSTNAME) if host_port else excluded,
        hard_spread=tuple([(key, skew) for key, skew, soft in skews if not soft]),
        preferred_affinity=preferred,
        soft_spread=(*[(key, 1) for key, _ in avoided], *[(key, skew) for key, skew, soft in skews if soft]),
    )


def _has_host_port(spec: Mapping[str, Any]) -> bool:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any([port.get("hostPort") for container in containers for port in container.get("ports") or ()])


def _keys(pod: Pod, terms: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, ...], bool]:
    """The topology keys of the terms that select the pod itself, and whether there are other terms."""
    listed = list(terms)
    own = [t for t in listed[:_MAX_RULES] if _about_own_pods(t, pod) and _selects(t.get("labelSelector"), pod)]
    return tuple([str(term.get("topologyKey")) for term in own]), len(own) < len(listed)


def _weighted_keys(pod: Pod, terms: Iterable[Mapping[str, Any]]) -> tuple[tuple[tuple[str, int], ...], bool]:
    """As `_keys`, for preferred terms: with the weight of each, the highest first."""
    listed = sorted(terms, key=lambda term: -int(term.get("weight") or 0))
    keys, has_others = _keys(pod, [term.get("podAffinityTerm") or {} for term in listed])
    weights = [int(term.get("weight") or 0) for term in listed]
    return () if has_others else tuple(zip(keys, weights, strict=True)), has_others


def _about_own_pods(term: Mapping[str, Any], pod: Pod) -> bool:
    """Whether a term is about the pod's own namespace, and does not exclude its own workload by `mismatchLabelKeys`.

    The namespaceSelector {} means all namespaces, so its own too.
    """
    namespaces, selector = term.get("namespaces"), term.get("namespaceSelector")
    own = (
        selector == {}
        or (selector is None and not namespaces)
        or pod["metadata"].get("namespace") in (namespaces or ())
    )
    return own and labels_of(pod).keys().isdisjoint(term.get("mismatchLabelKeys") or ())


def _selects(selector: Mapping[str, Any] | None, pod: Pod) -> bool:
    return bool(selects(compiled(selector), labels_of(pod)))


def peer_rule_tiers(
    peer_rules: PeerRules,
    nodes: Nodes,
    rows: NDArray[np.intp],
    fits: NDArray[np.bool_],
    demand: Demand,
    pods: int,
    peers: Peers,
) -> list[Tier]:
    """The tiers of `rows`, which are nodes that the filter passes, by each rule.

    `fits`: which of `rows` have room for the pod now. `pods`: how many pods the owner will have; 1 if that is not known.
    `peers`: how many it has.
    """
    tiers: list[Tier] = []
    if not len(rows):
        return tiers
    for key in peer_rules.affinity:
        domains = domains_of(nodes, key)
        if peers:
            tiers.append(_peers_near(rows, domains, peers) == 0)
            continue
        rooms = _rooms(peer_rules, nodes, demand, peers, rows[fits], domains)
        tiers.append(-(np.minimum(rooms, pods) if pods > 1 else rooms)[domains[rows]])
    for key in peer_rules.anti_affinity:
        tiers.append(_peers_near(rows, domains_of(nodes, key), peers) > 0)
    for key, skew in peer_rules.hard_spread:
        domains = domains_of(nodes, key)
        near = _peers_near(rows, domains, peers)
        tiers.append((near + 1 - near.min() > skew) | (domains[rows] == 0))
    if peers and peer_rules.preferred_affinity:
        preference = np.zeros(len(rows), np.int64)
        for key, weight in peer_rules.preferred_affinity:
            preference += weight * _peers_near(rows, domains_of(nodes, key), peers)
        tiers.append(-preference)
    for key, _ in peer_rules.preferred_affinity if pods > 1 and not peers else ():
        domains = domains_of(nodes, key)
        rooms = _rooms(peer_rules, nodes, demand, peers, rows[fits], domains)
        tiers.append(-np.minimum(rooms, pods)[domains[rows]])
    for key, step in peer_rules.soft_spread:
        tiers.append(_peers_near(rows, domains_of(nodes, key), peers) // step)
    return tiers


def _rooms(
    peer_rules: PeerRules, nodes: Nodes, demand: Demand, peers: Peers, rows: NDArray[np.intp], domains: Integers
) -> Integers:
    """By number of a domain, how many pods fit on `rows` in it."""
    room = room_beside(peer_rules, nodes, demand, peers, rows, domains)
    rooms = np.bincount(domains[rows], weights=room, minlength=domains.max() + 1).astype(np.int64)
    rooms[0] = 0
    return rooms


def room_beside(
    peer_rules: PeerRules, nodes: Nodes, demand: Demand, peers: Peers, rows: NDArray[np.intp], domains: NDArray[Any]
) -> Integers:
    """How many pods fit on each of `rows` under anti-affinity and hard spread.

    Rows that share a domain of such a rule, and one of `domains`, are counted on the first of them.
    """
    room: Integers = room_for(nodes, rows, demand)
    if not len(rows):
        return room
    for key, allowed, spread in (
        *[(key, 1, False) for key in peer_rules.anti_affinity],
        *[(key, skew, True) for key, skew in peer_rules.hard_spread],
    ):
        rule_domains = domains_of(nodes, key)
        near = _peers_near(rows, rule_domains, peers)
        left = np.maximum(allowed + (near.min() if spread else 0) - near, 0)
        if key == HOSTNAME:
            room = np.minimum(room, left)
            continue
        pairs = domains[rows].astype(np.int64) * (int(rule_domains.max()) + 1) + rule_domains[rows]
        _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
        shared = np.zeros_like(room)
        shared[first] = np.minimum(np.bincount(which, weights=room), left[first])
        room = np.where(rule_domains[rows] == 0, 0 if spread else room, shared)
    return room


def domains_of(nodes: Nodes, key: str) -> Integers:
    """By row, the number of its domain; 0 if it is in none."""
    size = nodes.columns.size
    if key == HOSTNAME:
        return np.arange(1, size + 1)
    column = nodes.labels.column(key)
    return np.zeros(size, np.int64) if column is None else column.padded(size)[:size].astype(np.int64)


def _peers_near(rows: NDArray[np.intp], domains: Integers, peers: Peers) -> Integers:
    """For each of `rows`, how many peers are in its domain."""
    counts = np.zeros(int(domains.max()) + 1, np.int64)
    for row, count in peers.items():
        counts[domains[row]] += count
    counts[0] = 0
    return counts[domains[rows]]
