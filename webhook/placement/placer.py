"""Filter, score, choose: the ranked nodes for one pod, and why.

`placement_request` reads the pod, `Placer.answer` looks at the cluster, `Placer.place` does both. Equal pods have equal
requests, so the replicas of a template share one. Nothing here changes the cluster state; a `Placer` caches the scores of
each pod shape, and computes again only what changed.
"""

from __future__ import annotations

import orjson

from webhook.cluster.pods import demand_of, is_short, owner_key
from webhook.cluster.state import ClusterState
from webhook.errors import QuantityError
from webhook.framework.cluster_view import Cluster, Obstacle, Placement
from webhook.kube.gpus import GpuName, Gpus
from webhook.kube.pod import Pod, claims_devices
from webhook.placement.eligible import ineligible
from webhook.placement.gangs import gang_size
from webhook.placement.preferences import NO_PREFERENCES, preferences_of, resolved
from webhook.placement.ranker import Ranker
from webhook.placement.request import PlacementRequest, shape_key
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import STRATEGIES

__all__ = ["PlacementRequest", "Placer", "demand_of", "placement_request"]

_RANKERS = 6


def placement_request(
    pod: Pod, settings: PlacementSettings, strategy: str, gpus: Gpus, workload: str = ""
) -> PlacementRequest | Placement:
    """What `answer` needs of a pod, whatever the state of the cluster; a Placement where no node is to be chosen.

    It keeps nothing of `pod` itself. Pods with equal specs, owners, labels and annotations have equal requests.
    `workload`: the class of the pod, for the preferences of the policy.
    """
    preferences = preferences_of(pod, settings.preferences, workload)
    if strategy not in STRATEGIES and preferences is None:
        return Placement((), strategy, "the policy leaves it to the scheduler")
    if reason := ineligible(pod):
        return Placement((), strategy, reason)
    try:
        demand = demand_of(pod)
    except QuantityError:
        return Placement((), strategy, "a request is not a quantity")
    if not gpus.among([name for name, _ in demand.requests]):
        if claims_devices(pod):
            return Placement((), strategy, "GPUs only through DRA")
        if not settings.every_pod:
            return Placement((), strategy, "no GPU is asked for")
    if not is_short(demand):
        return Placement((), strategy, "too many resources are asked for")
    stated, shape = shape_key(pod["spec"])
    key = b"%b\0%b\0%b" % (strategy.encode(), orjson.dumps(demand.requests), shape)
    return PlacementRequest(strategy, demand, stated, owner_key(pod), gang_size(pod, settings.gangs), key, preferences)


class Placer:
    """Chooses nodes of one cluster. There is one for each state; it keeps the caches.

    `cluster` is what units see of that same state, at this moment. Same input, same answer.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._rankers: dict[tuple[bytes, tuple[GpuName, ...]], Ranker] = {}
        self._last: tuple[PlacementSettings, Gpus, Ranker] | None = None

    def place(
        self, pod: Pod, cluster: Cluster, settings: PlacementSettings, strategy: str, gpus: Gpus, workload: str = ""
    ) -> Placement:
        """Rank nodes for `pod` as it will be stored. `strategy`: "apart", "spread", "pack" or "off".

        Where no node is chosen `reason` is a constant phrase, and `rejected` says why none fits.
        """
        request = placement_request(pod, settings, strategy, gpus, workload)
        return request if isinstance(request, Placement) else self.answer(request, cluster, settings, gpus)

    def answer(self, request: PlacementRequest, cluster: Cluster, settings: PlacementSettings, gpus: Gpus) -> Placement:
        """Rank nodes for a pod with this request. `settings` and `gpus`: those that the request was made with."""
        preferences = NO_PREFERENCES
        if request.preferences is not None:
            preferences = resolved(request.preferences, self._state.nodes, cluster, gpus)
        if request.strategy not in STRATEGIES:
            found = Placement((), request.strategy, "the policy leaves it to the scheduler")
        elif not cluster.fresh:
            found = Placement((), request.strategy, "cluster state is stale")
        else:
            found = self._ranker(settings, gpus).place(request, preferences)
        if preferences is NO_PREFERENCES:
            return found
        by_name = () if found.nodes else preferences.by_name
        return found._replace(preferred=by_name or preferences.preferred, warning=preferences.warning)

    def obstacles(self, pod: Pod, cluster: Cluster, settings: PlacementSettings, gpus: Gpus) -> tuple[Obstacle, ...]:
        """Why no node could take `pod` even if all of them were up and empty.

        () where some node could, where the node is not the scheduler's to choose, and where nobody can tell.
        """
        if not cluster.fresh or ineligible(pod):
            return ()
        try:
            demand = demand_of(pod)
        except QuantityError:
            return ()
        if not is_short(demand) or not gpus.among([name for name, _ in demand.requests]):
            return ()
        return self._ranker(settings, gpus).obstacles(pod, demand)

    def _ranker(self, settings: PlacementSettings, gpus: Gpus) -> Ranker:
        """The ranker of these settings. Profiles with equal settings share one; a few of earlier policies are kept."""
        if self._last is not None and self._last[0] is settings and self._last[1] is gpus:
            return self._last[2]
        key = settings.ranking, gpus.names
        found = self._rankers.pop(key, None)
        if found is None:
            if len(self._rankers) >= _RANKERS:
                del self._rankers[next(iter(self._rankers))]
            found = Ranker(self._state, settings, gpus)
        self._rankers[key] = found
        self._last = settings, gpus, found
        return found
