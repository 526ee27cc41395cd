"""Filter, score, choose: ranks nodes for pods by one profile's settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from webhook.cluster.node_table import Demand, View
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Obstacle, Placement, Ranked
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod
from webhook.placement.constraints import Mask, compiled
from webhook.placement.filters import Filter
from webhook.placement.gangs import gang_domains
from webhook.placement.node_scores import AVOIDED, NodeScores
from webhook.placement.obstacles import obstacles
from webhook.placement.peers import SEVERAL, PeerOrder, best_apart
from webhook.placement.preferences import NO_PREFERENCES, ResolvedPreferences
from webhook.placement.refusals import Refusals
from webhook.placement.request import PlacementRequest, Spec, shape_key, spec_of
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import STRATEGIES, WEIGHTS
from webhook.placement.whole import Whole, whole_nodes

_BUDGET: Final = 64 << 20
"""Bytes for scores: tenants write the shapes of pods."""
_BYTES_PER_CHARACTER: Final = 16
"""What a compiled constraint takes, for each character that it was written in."""
_LONGEST: Final = 32 << 10
"""Of what a pod states about nodes, to be ranked by. Affinity to 500 nodes by name has 20 kB."""
_SHAPES: Final = 512
_OWNERS: Final = 16
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
Peers = dict[int, int]
_NO_PEERS: Peers = {}


class Ranker:
    """One per profile and policy, beside one cluster state."""

    def __init__(self, state: ClusterState, settings: PlacementSettings, gpus: Gpus) -> None:
        self._state = state
        self._settings = settings
        self._gpus = gpus
        self._scores: dict[bytes, NodeScores] = {}
        """By shape of pod, the least recently used first. They save a choice the filters and scores of all nodes: 0.5 ms at
        1,213 nodes, 4 ms at 65,000."""
        self._orders: dict[tuple[bytes, str], PeerOrder] = {}
        """By shape and owner, likewise. See there what they save."""
        self._refusals = Refusals(state, gpus)
        self._obstacles: dict[tuple[bytes, Demand], tuple[int, tuple[Obstacle, ...]]] = {}
        """By shape of pod, and when they were there. Controllers try again and again: this saves 0.2 ms at 1,213 nodes."""
        self._view = View(0, ())
        self._seen_by_view: tuple[int, int, int, int] = (-1, -1, -1, -1)

    def place(self, request: PlacementRequest, preferences: ResolvedPreferences = NO_PREFERENCES) -> Placement:
        """Rank nodes for a pod whose node is ours to choose."""
        nodes = self._state.nodes
        key = request.key + preferences.key
        scores = self._scores_of(key, request, preferences)
        if scores is None:
            return Placement((), request.strategy, "affinity or tolerations are too many to rank by")
        scores.refresh(nodes, self._current_view())
        peers = self._state.usage.peers.get(request.owner, _NO_PEERS)
        rows = self._choose(key, request, scores, peers)
        if not rows:
            rejected = self._refusals.reasons(key, lambda: scores.filter, request.demand)
            return Placement((), request.strategy, "no node fits", total=nodes.count, rejected=rejected)
        return Placement(self._ranked(scores, rows, peers), request.strategy, "", WEIGHTS, nodes.count)

    def obstacles(self, pod: Pod, demand: Demand) -> tuple[Obstacle, ...]:
        """Why no node could take the pod if all were up and empty."""
        stated, key = shape_key(_required(pod["spec"]))
        nodes = self._state.nodes
        known = self._obstacles.get((key, demand))
        if known is None or known[0] != nodes.version:
            static = self._filter(stated, NO_PREFERENCES)
            found = () if static is None else tuple(obstacles(demand, static, nodes, self._gpus))
            if len(self._obstacles) >= _SHAPES:
                self._obstacles.clear()
            known = self._obstacles[key, demand] = nodes.version, found
        return known[1]

    # --- filter and score ---------------------------------------------------------------------------------------------

    def _scores_of(self, key: bytes, request: PlacementRequest, preferences: ResolvedPreferences) -> NodeScores | None:
        """Of this shape of pod; None where it states more than can be ranked by."""
        scores = self._scores.pop(key, None)
        if scores is None:
            static = self._filter(request.stated, preferences)
            if static is None:
                return None
            gpu = next(iter(self._gpus.among([name for name, _ in request.demand.requests])), None)
            size = _BYTES_PER_CHARACTER * len(request.stated)
            scores = NodeScores(static, request.demand, STRATEGIES[request.strategy], gpu, size)
            left = _BUDGET - sum([each.kept_bytes for each in self._scores.values()])
            while self._scores and (left < 0 or len(self._scores) >= _SHAPES):
                left += self._scores.pop(next(iter(self._scores))).kept_bytes
        self._scores[key] = scores  # as the one used last
        return scores

    def _filter(self, stated: bytes, preferences: ResolvedPreferences) -> Filter | None:
        constraints = compiled(spec_of(stated)) if len(stated) <= _LONGEST else None
        return None if constraints is None else Filter(preferences.below(constraints), self._settings.health)

    def _current_view(self) -> View:
        columns, history = self._state.nodes.columns, self._state.history
        size = self._state.nodes.count.bit_length()  # half as many nodes, or twice as many, are worth a new look
        seen = (history.version, len(columns.capacity), len(columns.models), size)
        if seen != self._seen_by_view:
            self._seen_by_view = seen
            models = {name: number for number, name in enumerate(columns.models)}
            gpus = tuple(sorted(self._gpus.among(columns.capacity)))
            self._view = View(self._view.version + 1, gpus, history.popular(models))
        return self._view

    # --- choose -------------------------------------------------------------------------------------------------------

    def _choose(self, key: bytes, request: PlacementRequest, scores: NodeScores, peers: Peers) -> list[int]:
        """The best rows. What the pod's author prefers comes first, then what the policy prefers, then the domain of the pod's
        gang, then nodes that GPU metrics do not advise against, then whole nodes last where few are left, and fewest peers
        first, where the strategy says so, then the score."""
        nodes, count = self._state.nodes, self._settings.nodes
        near: list[Mask] = []
        if request.gang:
            keys = self._settings.gangs.keys
            near = gang_domains(nodes, scores.score, request.demand, peers, request.gang, keys)
        if not scores.strategy.peers_first:
            peers = _NO_PEERS
        whole = self._scarce(scores) if peers else []
        if not near and len(peers) > SEVERAL:
            return self._order_of(key, request.owner).best(nodes, scores, peers, whole, count)
        found: list[int] = []
        for among in _groups(scores, near):
            # Where a group did not fill the list, all of its rows are in `found`: the next group need only skip those.
            if peers:
                found += best_apart(nodes, scores, peers, whole, count - len(found), set(found), among)
            else:
                found += scores.best(nodes, count - len(found), set(found), among)
            if len(found) >= count:
                break
        return found

    def _scarce(self, scores: NodeScores) -> list[Whole]:
        """The kinds of whole nodes of which few are left, where that matters."""
        columns = self._state.nodes.columns
        kinds = whole_nodes(columns, self._view, scores.demand) if scores.strategy.spares_whole else []
        return [whole for whole in kinds if whole.scarce(columns)]

    def _order_of(self, key: bytes, owner: str) -> PeerOrder:
        order = self._orders.pop((key, owner), None) or PeerOrder()
        if len(self._orders) >= _OWNERS:
            del self._orders[next(iter(self._orders))]
        self._orders[key, owner] = order  # as the one used last
        return order

    def _ranked(self, scores: NodeScores, rows: list[int], peers: Peers) -> tuple[Ranked, ...]:
        """What is said of the chosen rows."""
        columns, score_of = self._state.nodes.columns, scores.score.item
        free = columns.free_at[scores.gpu] if scores.gpu is not None else bytes(columns.size)
        found = [Ranked(columns.name[row], free[row], peers.get(row, 0), score_of(row)) for row in rows]
        if self._state.nodes.avoided:
            found = [r._replace(score=r.score + AVOIDED) if r.score < -AVOIDED / 2 else r for r in found]
        return tuple(found)


def _groups(scores: NodeScores, near: list[Mask]) -> Iterator[Mask | None]:
    """The nodes in groups, the best first. None: all of them."""
    if near and scores.preference is not None:
        left = scores.score > -np.inf
        while left.any():  # preferences come before the domains of a gang
            level = left & (scores.preference == scores.preference[left].max())
            yield from (level & domain for domain in near)
            yield level
            left &= ~level
    else:
        yield from near
        yield None


def _required(spec: Spec) -> Spec:
    """`spec` without the user's and our own preferences: these differ from pod to pod, and forbid nothing."""
    stated = {key: spec[key] for key in ("nodeSelector", "tolerations") if key in spec}
    if (terms := ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)) is not None:
        stated["affinity"] = {"nodeAffinity": {_REQUIRED: terms}}
    return stated
