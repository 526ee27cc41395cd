"""Counts why nodes cannot take a pod now: how many nodes each reason excludes."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from webhook.cluster.node_table import TOLD
from webhook.cluster.nodes import Nodes
from webhook.framework.cluster_view import Rejected
from webhook.kube.gpus import Gpus
from webhook.kube.pod_requests import Demand
from webhook.placement.constraints import Mask
from webhook.placement.devices import found_devices
from webhook.placement.filters import Check, Filter
from webhook.placement.peer_rules import PeerRules, Peers, allowed

_INSUFFICIENT: Final = {
    "cpu": "too little CPU",
    "memory": "too little memory",
    "pods": "too many pods",
    "ephemeral-storage": "too little ephemeral storage",
}


def refusals(
    nodes: Nodes, gpus: Gpus, pod_filter: Filter, demand: Demand, peer_rules: PeerRules, peers: Peers
) -> Rejected:
    """How many nodes each reason excludes, most first. A node counts for the first reason that applies to it. () if some node
    can take the pod."""
    left, rejected = nodes.columns.alive[: nodes.columns.rows], dict[str, int]()
    for reason, passes in _checks(nodes, gpus, pod_filter, demand, peer_rules, peers):
        kept = left & passes
        if count := int(np.count_nonzero(left)) - int(np.count_nonzero(kept)):
            rejected[reason] = rejected.get(reason, 0) + count
        left = kept
    return () if left.any() else tuple(sorted(rejected.items(), key=lambda item: (-item[1], item[0])))


def _checks(
    nodes: Nodes, gpus: Gpus, pod_filter: Filter, demand: Demand, peer_rules: PeerRules, peers: Peers
) -> Iterator[Check]:
    rows, capacity, free = slice(0, nodes.columns.rows), nodes.columns.capacity, nodes.columns.free
    has = np.ones(nodes.columns.rows, bool)
    for resource in gpus.among([name for name, _ in demand.requests]):
        has &= capacity[resource][rows] > 0 if resource in capacity else False
    if nodes.dra and not demand.devices:
        yield "GPUs only through DRA", has | ~_has_dra_gpus(nodes)
    yield "no such GPU", has
    yield from pod_filter.checks(nodes, rows)
    if demand.devices:
        found = found_devices(nodes.columns, nodes.devices, np.arange(nodes.columns.rows), demand.devices)
        yield "no free devices for its claims", found.ranks >= 0
    for resource, amount in demand.requests:
        if not resource.startswith(TOLD):
            gpu = gpus.kind(resource) is not None
            reason = "too few free GPUs" if gpu else _INSUFFICIENT.get(resource, "too little of a resource")
            yield reason, free[resource][rows] >= amount if resource in free else np.zeros(len(has), bool)
    by_rules = allowed(peer_rules, nodes, np.arange(nodes.columns.rows), peers, pod_filter)
    if by_rules is not None:
        yield "its rules about pods of its owner", by_rules


def _has_dra_gpus(nodes: Nodes) -> Mask:
    """Which rows are nodes whose GPUs are listed in ResourceSlices."""
    mask = np.zeros(nodes.columns.rows, bool)
    mask[[row for name in nodes.dra if (row := nodes.row_of.get(name)) is not None]] = True
    return mask
