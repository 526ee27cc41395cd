"""Filters, scores and ranks nodes for pods, by the settings of one profile."""

from typing import Final

import numpy as np

from webhook.cluster.devices import WHOLE
from webhook.cluster.node_table import TOLD, View
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import MetricsStatus, Obstacle, Placement, Ranked
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import Gpus
from webhook.kube.pod import REQUIRED
from webhook.kube.pod_requests import Demand
from webhook.placement.constraints import Constraints, compiled
from webhook.placement.criteria import Candidates, Indices, best
from webhook.placement.devices import LEFT_ALONE
from webhook.placement.feasible import Feasible, Switches, counted, free_amounts
from webhook.placement.node_scores import NEVER, NodeScores
from webhook.placement.peer_rules import Peers
from webhook.placement.preferences import ResolvedPreferences
from webhook.placement.request import PlacementRequest, Spec, shape_key, spec_of
from webhook.placement.settings import PlacementSettings
from webhook.placement.shared_cache import SharedCache
from webhook.placement.strategies import STRATEGIES, WEIGHTS
from webhook.placement.use import usable_gpus
from webhook.placement.volumes import VolumeTopology
from webhook.placement.why_not import Search

_MAX_BYTES: Final = 64 << 20
"""Maximum memory for cached scores: tenants write the shapes of pods."""
_BYTES_PER_CHARACTER: Final = 16
"""Memory of compiled constraints, for each character of their text."""
_MAX_CHARACTERS: Final = 32 << 10
"""Maximum length of the node constraints of a pod. Affinity to 500 nodes by name has 20 kB."""
_MAX_SHAPES: Final = 512
_NO_PEERS: Peers = {}


class Ranker:
    """Ranks the nodes of one cluster state by equal placement settings."""

    def __init__(self, state: ClusterState, settings: PlacementSettings, gpus: Gpus) -> None:
        self._state = state
        self._settings = settings
        self._gpus = gpus
        self._scores = SharedCache[bytes, NodeScores](_MAX_SHAPES)
        """By shape of pod. Without these a choice filters and scores all nodes: 0.5 ms at 1,213 nodes, 4 ms at 65,000."""
        self._obstacles = SharedCache[tuple[bytes, Demand], tuple[object, tuple[Obstacle, ...]]](_MAX_SHAPES)
        """By shape of pod, with the version of the nodes and what classes serve. Controllers retry often: this saves 0.2 ms."""
        self._view = View(0, ())
        self._view_key: tuple[int, int, int, int] = (-1, -1, -1, -1)

    def place(
        self,
        request: PlacementRequest,
        metrics: MetricsStatus,
        preferences: ResolvedPreferences,
        volumes: VolumeTopology,
        asked: Demand,
    ) -> Placement:
        """Rank nodes for a pod. `volumes`: to which nodes its volumes confine it. `asked`: what is reserved for it."""
        nodes = self._state.nodes
        key = request.key + preferences.key + volumes.key
        scores = self._scores_of(key, request, preferences, volumes)
        if scores is None:
            return Placement((), request.strategy, reason="affinity or tolerations are too many to rank by")
        scores.refresh(nodes, self._current_view(), burst=nodes.divided() and self._state.ledger.burst)
        if scores.undecided:
            return Placement((), request.strategy, reason=LEFT_ALONE)
        peers = self._state.usage.peers.get(request.pod.owner_key, _NO_PEERS)
        pods = request.gang if request.gang > 1 else self._state.jobs.pods(request.pod.owner_key) or 1
        fits = scores.score > NEVER
        for check in scores.judgement.peers(request.peer_rules, nodes, scores.rows, peers):
            fits &= check.passes
        chosen, decided = best(Candidates(request, nodes, scores, peers, pods, self._view, self._settings, fits))
        if not len(chosen):
            judgement, everywhere = scores.judgement, np.arange(nodes.columns.rows)
            free = free_amounts(self._state, judgement.switches)
            near = judgement.peers(request.peer_rules, nodes, everywhere, peers)
            rejected = counted(nodes, judgement.checks(nodes, self._gpus, free, near))
            return Placement((), request.strategy, reason="no node fits", total=nodes.count, rejected=rejected)
        ranked = self._ranked(scores, chosen, peers)
        numbers = _numbers(metrics, ranked) if scores.gpu is not None else ()
        return Placement(
            ranked,
            request.strategy,
            weights=WEIGHTS,
            total=nodes.count,
            numbers=numbers,
            decided=decided,
            asked=asked.requests,
            devices=asked.devices,
        )

    def obstacles(self, pod: AskedPod, demand: Demand) -> tuple[Obstacle, ...]:
        """Why no node could take the pod if all were up and empty."""
        spec_json, key = shape_key(_required(pod.spec))
        nodes, namespace = self._state.nodes, pod.namespace
        served = self._state.device_demands.extended(demand)
        version, known = (nodes.changes.position, served), self._obstacles.get((key, demand), namespace)
        if known is None or known[0] != version:
            constraints = _constraints(spec_json)
            search = None if constraints is None else Search(demand, constraints, nodes, self._gpus, served)
            known = version, () if search is None else tuple(search.obstacles())
            self._obstacles.put((key, demand), known, namespace)
        return known[1]

    # --- filter and score ---------------------------------------------------------------------------------------------

    def _scores_of(
        self, key: bytes, request: PlacementRequest, preferences: ResolvedPreferences, volumes: VolumeTopology
    ) -> NodeScores | None:
        """The scores for this shape of pod; None if it has more constraints than can be ranked by."""
        scores = self._scores.get(key, request.pod.namespace)
        if scores is None:
            constraints = _constraints(request.spec_json)
            if constraints is None:
                return None
            ranked_by = preferences.below(constraints)
            switches = Switches(health=self._settings.health)
            judgement = Feasible(ranked_by, request.demand, switches, volumes=volumes.terms, claims=volumes.claims)
            gpu = next((name for name, _ in request.demand.requests if self._is_gpu(name)), None)
            size = _BYTES_PER_CHARACTER * len(request.spec_json)
            scores = NodeScores(judgement, STRATEGIES[request.strategy], gpu, size)
            left = _MAX_BYTES - sum([each.kept_bytes for each in self._scores.values()])
            while left < 0 and (evicted := self._scores.evict()):
                left += sum([each.kept_bytes for each in evicted])
            self._scores.put(key, scores, request.pod.namespace)
        return scores

    def _current_view(self) -> View:
        columns, demands = self._state.nodes.columns, self._state.demands
        size = self._state.nodes.count.bit_length()  # a new view when the number of nodes doubles or halves
        key = (demands.version, len(columns.capacity), len(columns.models), size)
        if key != self._view_key:
            self._view_key = key
            models = {name: number for number, name in enumerate(columns.models)}
            gpus = tuple(sorted([name for name in columns.capacity if self._is_gpu(name)]))
            self._view = View(self._view.version + 1, gpus, demands.popular(models, gpus))
        return self._view

    def _is_gpu(self, resource: str) -> bool:
        return resource.startswith(TOLD) or self._gpus.kind(resource) is not None

    def _ranked(self, scores: NodeScores, chosen: Indices, peers: Peers) -> tuple[Ranked, ...]:
        """The chosen rows with the numbers that they were ranked by."""
        columns, rows = self._state.nodes.columns, scores.rows[chosen]
        gpu = scores.gpu if scores.gpu in columns.free else None
        unit = WHOLE if gpu is not None and gpu.startswith(TOLD) else 1
        free = (columns.free[gpu][rows] // unit).tolist() if gpu is not None else [0] * len(rows)
        names = [columns.name[row] for row in rows.tolist()]
        near = [peers.get(row, 0) for row in rows.tolist()]
        unknown = [None] * len(names)
        each = zip(names, free, near, scores.score[chosen].tolist(), unknown, unknown, strict=True)
        ranked = list(map(Ranked._make, each))
        if self._state.nodes.metered and scores.gpu is not None:
            usable = usable_gpus(columns, rows, self._view.gpus, scores.gpu).tolist()
            for number, row in enumerate(rows.tolist()):
                if columns.known[row]:
                    load = round(100 * columns.utilisation.item(row)) if columns.measured[row] else None
                    ranked[number] = ranked[number]._replace(usable=max(0, int(usable[number])), load=load)
        return tuple(ranked)


def _constraints(spec_json: bytes) -> Constraints | None:
    """None if they are too many to rank by."""
    return compiled(spec_of(spec_json)) if len(spec_json) <= _MAX_CHARACTERS else None


def _numbers(metrics: MetricsStatus, ranked: tuple[Ranked, ...]) -> tuple[str | int, ...]:
    """What GPUs were ranked by: see `Placement.numbers`."""
    if not metrics.reason and metrics.age is not None and any([node.usable is not None for node in ranked]):
        return "metrics", metrics.source, int(metrics.age)
    return "allocation", metrics.reason or "no GPU metrics of these nodes"


def _required(spec: Spec) -> Spec:
    """`spec` without preferred node affinity: preferences differ from pod to pod, and forbid nothing."""
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return {**spec, "affinity": {"nodeAffinity": {REQUIRED: node_affinity.get(REQUIRED)}}}
