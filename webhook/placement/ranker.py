"""Ranks nodes for pods by one profile's settings, and remembers by pod shape what it worked out."""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from webhook.cluster.columns import Demand, View
from webhook.cluster.pods import owner_key
from webhook.cluster.state import ClusterState
from webhook.gpus import Gpus
from webhook.interface import Placement, Ranked, Rejected
from webhook.placement.constraints import compiled
from webhook.placement.filters import Filter, histogram
from webhook.placement.gangs import closeness, is_gang, size_of
from webhook.placement.ranking import AVOIDED, Scores, Shape, best_of
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import STRATEGIES, WEIGHTS
from webhook.pod import Pod

K = TypeVar("K")
V = TypeVar("V")

_BUDGET = 64 << 20  # bytes for scores; shapes are written by tenants
_BYTES_PER_ROW = 9
_FEWEST, _MOST = 64, 512
Peers = dict[int, int]
_NO_PEERS: Peers = {}
_NO_ROWS: NDArray[np.intp] = np.zeros(0, np.intp)


class Ranker:
    """One per profile and policy, beside one cluster state."""

    def __init__(self, state: ClusterState, settings: PlacementSettings, gpus: Gpus) -> None:
        self._state = state
        self._settings = settings
        self._gpus = gpus
        self._shapes: dict[bytes, Shape | None] = {}
        self._scores: dict[tuple[bytes, Demand, str], Scores] = {}
        self._possible: dict[tuple[bytes, Demand], tuple[int, Rejected]] = {}
        self._view = View(0, ())
        self._seen_by_view: tuple[int, int, int] = (-1, -1, -1)

    def place(self, pod: Pod, demand: Demand, strategy: str) -> Placement:
        """Rank nodes for a pod that asks for GPUs and whose node is ours to choose."""
        nodes, usage = self._state.nodes, self._state.usage
        key = _shape_key(pod)
        shape = self._shape(key, pod)
        if shape is None:
            return Placement((), strategy, "affinity or tolerations are too many to rank by")
        scores = _recent(self._scores, (key, demand, strategy))
        if scores is None:
            scores = Scores(shape, demand, STRATEGIES[strategy])
            _keep(self._scores, (key, demand, strategy), scores, self._limit())
        scores.refresh(nodes, usage, self._current_view())
        peers = usage.peers.get(owner_key(pod), _NO_PEERS)
        rows = self._ordered(pod, scores, peers)
        total = nodes.count
        if not rows:
            rejected = histogram(nodes, shape.filter, demand, self._gpus)
            return Placement((), strategy, "no node fits", total=total, rejected=rejected)
        return Placement(self._named(rows, scores, peers, demand), strategy, weights=WEIGHTS, total=total)

    def fits_empty(self, pod: Pod, demand: Demand) -> Rejected:
        """Why no node could take the pod if all were up and empty; () where one could, or nobody can tell."""
        key = _shape_key(pod)
        shape = self._shape(key, pod)
        if shape is None:
            return ()
        nodes = self._state.nodes
        known = _recent(self._possible, (key, demand))
        if known is None or known[0] != nodes.version:
            known = nodes.version, histogram(nodes, shape.filter, demand, self._gpus, empty=True)
            _keep(self._possible, (key, demand), known, _MOST)
        return known[1]

    def _named(self, rows: list[int], scores: Scores, peers: Peers, demand: Demand) -> tuple[Ranked, ...]:
        columns = self._state.nodes.columns
        asked = self._gpus.among(name for name, _ in demand.requests)[0]
        free, score = columns.free[asked][rows].tolist(), scores.score[rows].tolist()
        return tuple(
            [
                Ranked(columns.name[row], free[i], peers.get(row, 0), score[i] + AVOIDED * (score[i] < -AVOIDED / 2))
                for i, row in enumerate(rows)
            ]
        )

    def _ordered(self, pod: Pod, scores: Scores, peers: Peers) -> list[int]:
        """The best rows. The user's own wish comes first, then the domain of the pod's gang, then nodes that GPU metrics
        do not advise against, then fewest peers where the strategy says so, then the score."""
        nodes, count = self._state.nodes, self._settings.nodes
        crowd = peers if scores.strategy.peers_first else _NO_PEERS
        crowded = np.fromiter(crowd, np.intp, len(crowd))
        fitting, tiers = self._tiers(pod, scores, peers)
        if tiers is None:
            found = scores.best_without(nodes, count, crowded)
            if not crowd or (len(found) == count and scores.score[found[-1]] > -AVOIDED / 2):
                return found
            return self._merged(scores, [*found, *crowd], crowd)[:count]
        found = []
        for tier in np.flatnonzero(np.bincount(tiers))[::-1]:
            rows = fitting[tiers == tier]
            alone = rows[~np.isin(rows, crowded)] if crowd else rows
            best = best_of(alone, scores.score[alone], nodes.order[alone], count - len(found))
            if crowd:
                best = self._merged(scores, [*best, *np.intersect1d(rows, crowded).tolist()], crowd)
            found += best
            if len(found) >= count:
                break
        return found[:count]

    def _tiers(self, pod: Pod, scores: Scores, peers: Peers) -> tuple[NDArray[np.intp], NDArray[np.int64] | None]:
        """The rows that fit, and for each a number: higher ones go before any lower one. None: all are alike."""
        gangs, wish = self._settings.gangs, scores.shape.wish
        gang = is_gang(pod, gangs) and (peers or size_of(pod) > 1)
        if wish is None and not gang:
            return _NO_ROWS, None
        nodes = self._state.nodes
        fitting = np.nonzero(scores.score > -np.inf)[0]
        close = closeness(nodes, fitting, scores.demand, peers, size_of(pod), gangs.keys) if gang else None
        if wish is None:
            return fitting, close
        tiers = wish[fitting] * 2 ** len(gangs.keys)
        return fitting, tiers if close is None else tiers + close

    def _merged(self, scores: Scores, rows: list[int], peers: Peers) -> list[int]:
        """Rows that fit, in order; some of them have peers."""
        score = scores.score[rows]
        many = np.fromiter((peers.get(row, 0) for row in rows), np.int64, len(rows))
        order = np.lexsort((self._state.nodes.order[rows], -score, many, score < -AVOIDED / 2))
        return [rows[at] for at in order.tolist() if score[at] > -np.inf]

    # --- what is remembered -------------------------------------------------------------------------------------------

    def _shape(self, key: bytes, pod: Pod) -> Shape | None:
        if key not in self._shapes:
            constraints = compiled(pod["spec"])
            shape = None if constraints is None else Shape(Filter(constraints, self._settings.health))
            _keep(self._shapes, key, shape, self._limit())
            return shape
        return _recent(self._shapes, key)

    def _limit(self) -> int:
        return max(_FEWEST, min(_MOST, _BUDGET // (_BYTES_PER_ROW * self._state.nodes.columns.size)))

    def _current_view(self) -> View:
        columns, history = self._state.nodes.columns, self._state.history
        seen = (history.version, len(columns.capacity), len(columns.models))
        if seen != self._seen_by_view:
            self._seen_by_view = seen
            models = {name: number for number, name in enumerate(columns.models)}
            gpus = tuple(sorted(self._gpus.among(columns.capacity)))
            self._view = View(self._view.version + 1, gpus, history.popular(models))
        return self._view


def _shape_key(pod: Pod) -> bytes:
    """What decides where a pod may go, as bytes of bounded length."""
    spec = pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    stated = orjson.dumps([spec.get("nodeSelector"), affinity, spec.get("tolerations")], option=orjson.OPT_SORT_KEYS)
    return stated if len(stated) <= 512 else blake2b(stated, digest_size=32).digest()


def _recent(kept: dict[K, V], key: K) -> V | None:
    """What is kept under `key`, which is thereby the most recently used."""
    found = kept.pop(key, None)
    if found is not None:
        kept[key] = found
    return found


def _keep(kept: dict[K, V], key: K, value: V, limit: int) -> None:
    """Keep `value`; the least recently used ones make room."""
    while len(kept) >= limit:
        del kept[next(iter(kept))]
    kept[key] = value
