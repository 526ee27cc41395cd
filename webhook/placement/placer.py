"""Chooses nodes for pods: reads the pod, and ranks the nodes of the cluster for it. Nothing here changes the cluster state."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from heapq import merge
from typing import Final

from webhook.errors import QuantityError
from webhook.framework.cluster_view import Cluster, Placement, Unschedulable
from webhook.kube.asked import AskedPod, PodKey
from webhook.kube.gpus import DIVIDED, PARTS, Gpus
from webhook.kube.pod_requests import PodRequests, is_bounded
from webhook.placement.devices import plans
from webhook.placement.order import Ranker
from webhook.placement.preferences import NO_PREFERENCES, resolved
from webhook.placement.request import PlacementRequest, ineligible, placement_request
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import STRATEGIES
from webhook.placement.volumes import volume_topology
from webhook.state.state import ClusterState

_MAX_RANKERS = 16
FOLLOWS = "its volume is bound where the first pod with it goes"
EMPTIEST = "spread"


STALE: Final = "cluster state is stale"
"""The reason if the watches are behind."""


class Placer:
    """Ranks the nodes of one cluster state, and keeps the caches for that.

    `cluster` is what units see of the same state now. The same input gives the same result.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._rankers: dict[tuple[bytes, str], Ranker] = {}

    def place(
        self,
        pod: AskedPod,
        cluster: Cluster,
        settings: PlacementSettings,
        strategy: str,
        workload: str = "",
    ) -> Placement:
        """Rank nodes for `pod` as it will be stored. `strategy`: "apart", "spread", "pack" or "off". `workload`: its class.

        If no node is chosen, `reason` is a constant phrase, and `rejected` counts the nodes by why the pod does not fit.
        """
        gpus = pod.gpus
        request = placement_request(pod, settings, strategy, workload)
        if isinstance(request, Placement):
            return request
        preferences, asked = NO_PREFERENCES, PodRequests(())
        if request.preferences is not None:
            preferences = resolved(request.preferences, self._state.nodes, cluster, gpus)
        if request.strategy not in STRATEGIES:
            placement = Placement((), request.strategy, reason="the policy leaves it to the scheduler")
        elif request.peer_rules.left:
            placement = Placement((), request.strategy, reason=request.peer_rules.left)
        elif not cluster.fresh:
            placement = Placement((), request.strategy, reason=STALE)
        elif (volumes := volume_topology(request.volume_claims, self._state)).together and self._has_peers(request):
            placement = Placement((), request.strategy, reason=FOLLOWS)
        else:
            ranker, follows = self._ranker(settings, gpus), request
            if volumes.together:  # others may have to follow: the emptiest node has most room for them
                follows = request._replace(strategy=EMPTIEST, key=request.key + EMPTIEST.encode())
            placement = Placement((), request.strategy)
            for plan in plans(follows, volumes, self._state, gpus, every_pod=settings.every_pod):
                if isinstance(plan, Placement):
                    placement = placement if placement.nodes else plan
                    break
                rank = partial(ranker.place, plan.request, cluster.gpu_metrics, preferences, plan.confined, plan.asked)
                found = self._as_seen_by(pod, rank)
                before, placement = placement, _either(placement, found, settings.nodes)
                if found.nodes and placement.nodes[0] is not (before.nodes or (None,))[0]:
                    asked = plan.asked
                if placement.nodes and not (request.spread and placement.nodes[0].peers):
                    break
        warning = self._only_shares(placement, asked)
        if warning or request.required:
            placement = placement._replace(required=request.required, warning=warning)
        if preferences is NO_PREFERENCES or request.required:
            return placement
        by_name = () if placement.nodes else preferences.by_name
        return placement._replace(
            preferred=by_name or preferences.preferred, warning=preferences.warning or placement.warning
        )

    def _as_seen_by(self, pod: AskedPod, rank: Callable[[], Placement]) -> Placement:
        """`rank`, by the reservations and nominations that count for this pod."""
        usage, nominations = self._state.usage, self._state.nominations
        usage.seen_from(pod.namespace)
        aside = nominations.set_aside(pod.json)
        try:
            placement = rank()
            if not placement.nodes and usage.seen_from(""):
                placement = rank()  # reservations that may be of pods that do not exist take no pod its last node
        finally:
            nominations.count_again(aside)
        return placement

    def _has_peers(self, request: PlacementRequest) -> bool:
        return bool(self._state.usage.peers.get(request.pod.identity.owner))

    def _only_shares(self, placement: Placement, pod_requests: PodRequests) -> str | None:
        """A warning if the pod asks for several GPUs, and only nodes where these are slices or shares have room."""
        nodes, asked = (
            self._state.nodes,
            next(((name, n) for name in DIVIDED if (n := pod_requests.amount(name)) > 1), None),
        )
        if not placement.nodes or asked is None:
            return None
        best, (name, amount) = placement.nodes[0].node, asked
        one = nodes.one_of(best, name)
        if one.kind == "whole":
            return None
        parts = PARTS[one.kind]
        seen = f"only nodes where {name} is not a whole GPU have room for {amount} now, such as {best} ({one.said})"
        key, _, value = one.said.partition("=")
        step = f"For whole GPUs require other nodes: {f'{key} NotIn {value}' if value else 'by a label'}"
        return f"{seen}: {amount} {parts} are no {amount} GPUs. {step}"

    def has_room(self, node: str, pod_requests: PodRequests, namespace: str) -> bool:
        """Whether so much is free on a node, as a pod of this namespace sees it."""
        self._state.usage.seen_from(namespace)
        row, free = self._state.nodes.row_of.get(node), self._state.nodes.columns.free
        if row is None or not self._state.nodes.columns.alive[row]:
            return False
        return all([name in free and amount <= free[name][row] for name, amount in pod_requests.requests])

    def reserved(self, pod: PodKey, node: str) -> bool:
        """Whether this node has a reservation for such a pod that the watch has not confirmed yet."""
        return self._state.ledger.reserved(pod, node)

    def without_reservation(self, pod: PodKey, node: str) -> AbstractContextManager[bool]:
        """A context in which that reservation counts as free. Yields whether there is one."""
        return self._state.ledger.without(pod, node)

    def unschedulable(self, pod: AskedPod, cluster: Cluster, settings: PlacementSettings) -> tuple[Unschedulable, ...]:
        """Why no node could take `pod` even if all of them were up and empty.

        () if some node could, if another scheduler chooses the node, or if that cannot be told.
        """
        pod_requests = _comparable_requests(pod, cluster)
        return () if pod_requests is None else self._ranker(settings, pod.gpus).unschedulable(pod, pod_requests)

    def labels(
        self, pod: AskedPod, cluster: Cluster, settings: PlacementSettings, keys: tuple[str, ...]
    ) -> frozenset[tuple[str, ...]]:
        """The values of these labels on nodes that could take `pod` if they were up and empty: see `interface.Places`."""
        pod_requests = _comparable_requests(pod, cluster)
        return frozenset() if pod_requests is None else self._ranker(settings, pod.gpus).labels(pod, pod_requests, keys)

    def _ranker(self, settings: PlacementSettings, gpus: Gpus) -> Ranker:
        """The ranker for these settings. Profiles with equal settings share it."""
        key = settings.ranking, gpus.key
        if key not in self._rankers:
            if len(self._rankers) >= _MAX_RANKERS:  # most are of old policies
                self._rankers.clear()
            self._rankers[key] = Ranker(self._state, settings, gpus)
        return self._rankers[key]


def _either(one: Placement, other: Placement, most: int) -> Placement:
    """The nodes of two plans for one pod: fewer pods of its owner first, then the higher score, and each plan's in its order."""
    if not (one.nodes and other.nodes):
        return one if one.nodes else other
    nodes = [*merge(one.nodes, other.nodes, key=lambda node: (node.peers, -node.score))][:most]
    of = one if nodes[0] is one.nodes[0] else other
    decided = of.decided
    if len(of.nodes) == 1 or nodes[1] is not of.nodes[1]:
        decided = "peers" if nodes[0].peers != nodes[1].peers else "score"
    return of._replace(nodes=tuple(nodes), decided=decided)


def _comparable_requests(pod: AskedPod, cluster: Cluster) -> PodRequests | None:
    """The requests of a pod; None if it cannot be compared with nodes."""
    if not cluster.fresh or ineligible(pod):
        return None
    try:
        pod_requests = pod.pod_requests
    except QuantityError:
        return None
    return (
        pod_requests
        if is_bounded(pod_requests) and pod.gpus.among([name for name, _ in pod_requests.requests])
        else None
    )
