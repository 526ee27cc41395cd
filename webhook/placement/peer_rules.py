"""What a pod states about its peers (anti-affinity, spread constraints, host ports), and which nodes that allows and ranks first.

A rule whose selector matches the pod itself matches its peers, and the nodes of these are known. Where a rule is required, only
the domains that the scheduler allows are candidates; domains with fewer peers rank first. A strategy that spreads replicas does
so by two such rules, for hosts and for zones.

The labels of other pods are not kept: pod affinity, and preferred anti-affinity to other pods, are left to the scheduler, and no
node is chosen, since the weights of ranked nodes would outweigh a preference. For required anti-affinity to or of other pods it
takes the next of the ranked nodes.

Follows k8s.io/kubernetes pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread,nodeports}.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.kube.pod import HOSTNAME, PREFERRED, REQUIRED, ZONE, Pod, labels_of
from webhook.kube.selectors import compiled, selects
from webhook.nodes.nodes import Nodes
from webhook.nodes.table import Floats

_MAX_RULES: Final = 8
"""Maximum number of rules of each kind that one pod may have here."""
Peers = Mapping[int, int]
"""Number of pods of the owner by row."""
Tier = NDArray[Any]
"""A number for each of some rows: rows with lower numbers rank first, whatever their score."""


class PeerRule(NamedTuple):
    """Domains with fewer peers rank first."""

    key: str
    """Of the node label whose values are the domains."""
    step: int = 1
    """The maxSkew: peers are counted in steps of so many."""
    spread: bool = False
    """It is a spread constraint, and no anti-affinity: nodes without the label come last, and a required one allows `step` more
    pods than in the domain with fewest. Required anti-affinity allows one pod in each domain."""
    required: bool = False
    least_domains: int = 1
    """The minDomains of a required spread constraint."""
    tolerated_only: bool = False
    """Whether domains whose taints the pod does not tolerate are left out (nodeTaintsPolicy Honor)."""
    anywhere: bool = False
    """Whether domains count that the pod does not select (nodeAffinityPolicy Ignore)."""


class PeerRules(NamedTuple):
    """What the pods of one template state about each other."""

    rules: tuple[PeerRule, ...] = ()
    one_per_host: bool = False
    """No two of them may be on one host."""
    left: str = ""
    """Why the choice of a node is left to the scheduler; "" if it is not."""


NO_PEER_RULES: Final = PeerRules()


SPREAD_HOSTS: Final = PeerRule(HOSTNAME, spread=True)
SPREAD_ZONES: Final = PeerRule(ZONE, spread=True)


def spread_rules(*, spread: bool, gang: bool) -> tuple[PeerRule, ...]:
    """The rules of a strategy, if it spreads replicas. The pods of a gang work together, so they share a zone."""
    return () if not spread else (SPREAD_HOSTS,) if gang else (SPREAD_HOSTS, SPREAD_ZONES)


def peer_rules_of(pod: Pod, spread_by: Iterable[PeerRule] = ()) -> PeerRules:
    """The rules of a pod as it will be stored. `spread_by`: the rules of its strategy, which are finer than a soft spread
    constraint over the same domains."""
    spec, finer = pod["spec"], [rule.key for rule in spread_by]
    affinity, spread = spec.get("affinity") or {}, spec.get("topologySpreadConstraints") or ()
    anti_affinity, host_port = affinity.get("podAntiAffinity") or {}, _has_host_port(spec)
    near = affinity.get("podAffinity") or {}
    if near.get(REQUIRED) or near.get(PREFERRED):
        return PeerRules(left="pod affinity")
    if not (anti_affinity or spread or host_port):
        return NO_PEER_RULES
    preferred = sorted(anti_affinity.get(PREFERRED) or (), key=lambda term: -int(term.get("weight") or 0))
    avoided = _own_keys(pod, [term.get("podAffinityTerm") or {} for term in preferred])
    if len(avoided) < len(preferred):
        return PeerRules(left="preferred anti-affinity to other pods")
    required = [*_own_keys(pod, anti_affinity.get(REQUIRED) or ()), *([HOSTNAME] if host_port else [])]
    own = [
        _spread(constraint)
        for constraint in spread[:_MAX_RULES]
        if not (constraint.get("topologyKey") in finer and constraint.get("whenUnsatisfiable") == "ScheduleAnyway")
        and _selects(constraint.get("labelSelector"), pod)
    ]
    own.sort(key=lambda rule: not rule.required)
    rules = (*[PeerRule(key, required=True) for key in required], *own, *map(PeerRule, avoided))
    return PeerRules(rules, HOSTNAME in required)


def _spread(constraint: Mapping[str, Any]) -> PeerRule:
    return PeerRule(
        key=str(constraint.get("topologyKey")),
        step=int(constraint.get("maxSkew") or 1),
        spread=True,
        required=constraint.get("whenUnsatisfiable") != "ScheduleAnyway",
        least_domains=int(constraint.get("minDomains") or 1),
        tolerated_only=constraint.get("nodeTaintsPolicy") == "Honor",
        anywhere=constraint.get("nodeAffinityPolicy") == "Ignore",
    )


def _has_host_port(spec: Mapping[str, Any]) -> bool:
    """Of containers that keep running (GetHostPorts)."""
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    containers = [*(spec.get("containers") or ()), *sidecars]
    return any([port.get("hostPort") for container in containers for port in container.get("ports") or ()])


def _own_keys(pod: Pod, terms: Iterable[Mapping[str, Any]]) -> list[str]:
    """The topology keys of the terms that select the pod itself."""
    listed = list(terms)[:_MAX_RULES]
    own = [term for term in listed if _about_own_pods(term, pod) and _selects(term.get("labelSelector"), pod)]
    return [str(term.get("topologyKey")) for term in own]


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
    rules: Iterable[PeerRule], nodes: Nodes, rows: NDArray[np.intp], index: NDArray[np.intp], peers: Peers
) -> list[Tier]:
    """One tier of `rows` for each rule by which they differ. `index`: the place of each row in `rows`, their number for others.
    `peers`: how many pods the owner has on each row."""
    tiers: list[Tier] = []
    there, pods = arrays_of(peers)
    for rule in rules:
        if rule.key == HOSTNAME:
            if not peers:
                continue
            tier = np.zeros(len(rows) + 1)
            tier[index[there]] = pods
            tier = tier[:-1]
        else:
            domains = domains_of(nodes, rule.key)
            if not peers and not (rule.spread and domains.number > 1):
                continue
            counts = domains.counts(there, pods)
            counts[0] = counts.max() + rule.step if rule.spread else 0
            tier = counts[domains.of_row[rows]]
        tiers.append(tier // rule.step if rule.step > 1 else tier)
    return tiers


def arrays_of(peers: Peers) -> tuple[NDArray[np.intp], Floats]:
    """Rows, and the number of pods on each."""
    return np.fromiter(peers, np.intp, len(peers)), np.fromiter(peers.values(), float, len(peers))


class Domains(NamedTuple):
    """The topology domains of a node label."""

    of_row: NDArray[Any]
    """By row, a number for the value of the label: 0 for nodes without it."""
    number: int
    """All numbers are below it."""

    def counts(self, there: NDArray[np.intp], pods: Floats) -> Floats:
        """The number of peers in each domain: see `arrays_of`."""
        return np.bincount(self.of_row[there], pods, self.number).astype(np.float64, copy=False)


def domains_of(nodes: Nodes, key: str) -> Domains:
    size = nodes.columns.size
    if key == HOSTNAME:
        return Domains(np.arange(1, size + 1), size + 1)
    column = nodes.labels.column(key)
    return Domains(np.zeros(size, np.int64), 1) if column is None else Domains(column.padded(size), len(column.values))
