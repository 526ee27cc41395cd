"""Ranks nodes for pods by one profile's settings, and remembers by pod shape what it worked out."""

from __future__ import annotations

from collections.abc import Set
from itertools import chain
from typing import TypeVar

import numpy as np

from webhook.cluster.columns import Demand, View
from webhook.cluster.shares import OTHERS
from webhook.cluster.state import ClusterState
from webhook.facts import Placement, Rejected
from webhook.gpus import Gpus
from webhook.placement.ask import Ask, Spec, shape_key, spec_of
from webhook.placement.constraints import compiled
from webhook.placement.filters import Filter
from webhook.placement.gangs import Domain, Domains, homes
from webhook.placement.levels import Levels
from webhook.placement.ranking import AVOIDED, Scores
from webhook.placement.refusals import Refusals
from webhook.placement.settings import PlacementSettings
from webhook.placement.shapes import Shape
from webhook.placement.states import follow
from webhook.placement.strategies import STRATEGIES, WEIGHTS
from webhook.placement.whole import Whole, whole_nodes
from webhook.placement.wishes import NOTHING, Granted
from webhook.pod import Pod

K = TypeVar("K")
V = TypeVar("V")

_BUDGET = 64 << 20  # bytes for scores; shapes are written by tenants
_BYTES_PER_ROW = 10
_FEWEST, _MOST = 64, 512
_LONGEST = 8 << 10
"""Bytes of what a pod states about nodes: of one that says more nothing is kept, it is worked out again."""
_MOST_STATED = 32 << 10
"""Affinity to 500 nodes by name has 20 kB."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MANY = 256  # peers: from here on looking at all rows is cheaper than looking around them
Peers = dict[int, int]
_NO_PEERS: Peers = {}


class Ranker:
    """One per profile and policy, beside one cluster state."""

    def __init__(self, state: ClusterState, settings: PlacementSettings, gpus: Gpus) -> None:
        self._state = state
        self._settings = settings
        self._gpus = gpus
        self._shapes: dict[bytes, Shape | None] = {}
        self._scores: dict[bytes, Scores] = {}
        self._refusals = Refusals(state, gpus)
        self._domains = Domains()
        self._levels = Levels()
        self._view = View(0, ())
        self._seen_by_view: tuple[int, int, int, int] = (-1, -1, -1, -1)

    def place(self, ask: Ask, wishes: Granted = NOTHING) -> Placement:
        """Rank nodes for a pod whose node is ours to choose."""
        nodes, usage = self._state.nodes, self._state.usage
        demand, strategy = ask.demand, ask.strategy
        key = ask.whole if wishes is NOTHING else ask.whole + wishes.key  # whose hash is known
        scores = _recent(self._scores, key)
        if scores is None:
            shape = self._shape(ask.key + wishes.key, ask.stated, wishes)
            if shape is None:
                return Placement((), strategy, "affinity or tolerations are too many to rank by")
            asked = next(iter(self._gpus.among([name for name, _ in demand.requests])), None)
            scores = Scores(shape, demand, STRATEGIES[strategy], asked)
            if len(ask.stated) <= _LONGEST:
                _keep(self._scores, key, scores, self._limit())
        follow(nodes.columns)
        scores.refresh(nodes, self._current_view())
        peers = usage.peers.get(ask.owner, _NO_PEERS)
        rows = self._ordered(ask, scores, peers)
        total = nodes.count
        if not rows:
            rejected = self._refusals.reasons(scores.shape.filter, demand)
            return Placement((), strategy, "no node fits", total=total, rejected=rejected)
        return Placement(scores.ranked(nodes, rows, peers), strategy, "", WEIGHTS, total)

    def fits_empty(self, pod: Pod, demand: Demand) -> Rejected:
        """Why no node could take the pod if all were up and empty; () where one could, or nobody can tell."""
        stated, key = shape_key(_required(pod["spec"]))
        shape = self._shape(key, stated)
        return () if shape is None else self._refusals.reasons(shape.filter, demand, empty=True)

    def _ordered(self, ask: Ask, scores: Scores, peers: Peers) -> list[int]:
        """The best rows. What the pod's author wishes comes first, then what the policy prefers, then the domain of the
        pod's gang, then nodes that GPU metrics do not advise against, then whole nodes last where few are left, and fewest
        peers first, where the strategy says so, then the score."""
        count = self._settings.nodes
        crowd = peers if scores.strategy.peers_first else _NO_PEERS
        near: list[Domain] = []
        if ask.gang:
            keys = self._settings.gangs.keys
            near = homes(self._state.nodes, self._domains, scores.score, scores.demand, peers, ask.gang, keys)
        if not near and scores.shape.wish is None:  # nearly always
            return self._pick(scores, None, crowd, count, [])
        found: list[int] = []
        for level in self._levels.of(scores.shape, self._state.nodes):
            # Where a group did not fill the list, all of its rows are in `found`: the next group need only skip those.
            for among in chain((domain if level is None else _both(level, domain) for domain in near), (level,)):
                found += self._pick(scores, among, crowd, count - len(found), found)
                if len(found) >= count:
                    return found
        return found

    def _pick(self, scores: Scores, among: Domain | None, crowd: Peers, count: int, taken: list[int]) -> list[int]:
        """The best rows of a domain (of all where None) that are not `taken`."""
        nodes = self._state.nodes
        apart: Set[int] = {*crowd, *taken} if taken else crowd.keys()
        if among is None and len(crowd) <= _MANY:
            found = scores.best(nodes, count, apart)
        else:
            every = slice(0, nodes.columns.rows) if among is None else among.rows
            found = scores.best_within(nodes, count, apart, every, None if among is None else among.member)
        spared = self._spared(scores, found) if crowd else []
        if crowd and (spared or len(found) < count or scores.score.item(found[-1]) < -AVOIDED / 2):
            inside = [row for row in crowd if among is None or among.member.item(row)]
            found = self._merged(scores, [*found, *[row for row in inside if row not in taken]], crowd, spared)[:count]
        return found

    def _spared(self, scores: Scores, rows: list[int]) -> list[Whole]:
        """The kinds of whole nodes that are not to be broken for the sake of peers alone, where some of `rows` are such."""
        if not scores.strategy.spares_whole:
            return []
        columns = self._state.nodes.columns
        kinds = whole_nodes(columns, self._view, scores.demand)
        return [whole for whole in kinds if whole.scarce(columns) and whole.any(columns, rows)]

    def _merged(self, scores: Scores, rows: list[int], peers: Peers, spared: list[Whole]) -> list[int]:
        """Rows that fit, in order; some of them have peers, and some are `spared`."""
        nodes, score = self._state.nodes, scores.score[rows]
        many = np.fromiter((peers.get(row, 0) for row in rows), np.int64, len(rows))
        last = np.zeros(len(rows), np.int64)
        for whole in spared:
            last |= nodes.columns.free[whole.gpu][rows] >= whole.size
        if spared and nodes.shares.several:  # another replica fills its own at this moment
            last += 2 * (nodes.shares.less[rows] >= OTHERS)
        order = np.lexsort((nodes.order[rows], -score, many, last, score < -AVOIDED / 2))
        return [rows[at] for at in order.tolist() if score[at] > -np.inf]

    # --- what is remembered -------------------------------------------------------------------------------------------

    def _shape(self, key: bytes, stated: bytes, wishes: Granted = NOTHING) -> Shape | None:
        if len(stated) > _MOST_STATED:
            return None
        if key not in self._shapes:
            constraints = compiled(spec_of(stated))
            shape = None if constraints is None else Shape(Filter(wishes.below(constraints), self._settings.health))
            if len(stated) <= _LONGEST:
                _keep(self._shapes, key, shape, self._limit())
            return shape
        return _recent(self._shapes, key)

    def _limit(self) -> int:
        return max(_FEWEST, min(_MOST, _BUDGET // (_BYTES_PER_ROW * self._state.nodes.columns.size)))

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


def _both(one: Domain, other: Domain) -> Domain:
    member = one.member & other.member
    return Domain(np.flatnonzero(member), member)


def _required(spec: Spec) -> Spec:
    """`spec` without the user's and our own preferences: these differ from pod to pod, and forbid nothing."""
    stated = {key: spec[key] for key in ("nodeSelector", "tolerations") if key in spec}
    if (terms := ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)) is not None:
        stated["affinity"] = {"nodeAffinity": {_REQUIRED: terms}}
    return stated


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
