"""The order of nodes for a pod, as one list of criteria. The first criterion by which two nodes differ decides.

A strategy gives the score, and says whether the criteria `lastWholeNodes` and `peers` count. Nodes that are equal by all
criteria are ordered by name.

`Ranker` filters, scores and orders nodes by the settings of one profile.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.devices.types import PUBLISHED, WHOLE
from webhook.framework.cluster_view import MetricsStatus, Placement, Ranked, Unschedulable
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import DIVIDED, Gpus
from webhook.kube.pod import REQUIRED
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.nodes import Nodes
from webhook.nodes.popular import View
from webhook.placement.constraints import Constraints, Mask, compiled
from webhook.placement.devices import LEFT_ALONE
from webhook.placement.feasible import EVER, Feasible, Switches, counted, free_amounts
from webhook.placement.gangs import PART_ALONE, Part, Together, gang_domains, part_of, room_for
from webhook.placement.pack import whole_nodes
from webhook.placement.peer_rules import Peers, Tier, peer_rule_tiers
from webhook.placement.preferences import ResolvedPreferences
from webhook.placement.request import PlacementRequest, Spec, signature_key, spec_of
from webhook.placement.scores import NEVER, NodeScores
from webhook.placement.settings import PlacementSettings
from webhook.placement.shared_cache import SharedCache
from webhook.placement.strategies import STRATEGIES, WEIGHTS
from webhook.placement.use import usable_gpus, use_tiers
from webhook.placement.volumes import VolumeTopology
from webhook.placement.why_not import Search, for_pod
from webhook.state.state import ClusterState

Indices = NDArray[np.intp]
_MAX_BYTES: Final = 64 << 20
"""Maximum memory for cached scores: tenants write the signatures of pods."""
_BYTES_PER_CHARACTER: Final = 16
"""Memory of compiled constraints, for each character of their text."""
_MAX_CHARACTERS: Final = 32 << 10
"""Maximum length of the node constraints of a pod. Affinity to 500 nodes by name has 20 kB."""
_MAX_SHAPES: Final = 512
_NO_PEERS: Peers = {}


class Candidates(NamedTuple):
    """The nodes to choose from, `scores.rows`, and what the criteria read besides."""

    request: PlacementRequest
    nodes: Nodes
    scores: NodeScores
    peers: Peers
    pods: int
    """Number of pods of the gang; 1 if that is not known."""
    part: Part | None
    """The part of the gang that the pod is of; None if the gang has none."""
    view: View
    settings: PlacementSettings
    fits: Mask
    """Which of them can take the pod now."""


class Criterion(NamedTuple):
    """One criterion. `sentence`: why a node comes before another one, after "since"."""

    name: str
    sentence: str
    values: Callable[[Candidates], Iterable[Tier]]
    """A number for each candidate, lower ones first; several of them, or none where the criterion does not matter."""


def _penalty(of: Candidates) -> Iterable[Tier]:
    return () if of.scores.penalty is None else (of.scores.penalty,)


def _alternatives(of: Candidates) -> Iterable[Tier]:
    return () if of.scores.alternatives is None else (of.scores.alternatives,)


def _rejections(of: Candidates) -> Iterable[Tier]:
    avoided = [*of.nodes.rejections.avoided(of.request.pod.namespace)]
    if not avoided:
        return ()
    rejecting = np.zeros(of.nodes.columns.size, bool)
    rejecting[[of.nodes.row_of[name] for name in avoided if name in of.nodes.row_of]] = True
    return (rejecting[of.scores.rows],)


def _two_stacks(of: Candidates) -> Iterable[Tier]:
    if not of.nodes.dra or of.scores.gpu is None:
        return ()
    return (of.nodes.twice(of.view.gpus)[of.scores.rows],)


def _preference(of: Candidates) -> Iterable[Tier]:
    return () if of.scores.preference is None else (-of.scores.preference,)


def _whole_gpus(of: Candidates) -> Iterable[Tier]:
    several = of.scores.gpu in DIVIDED and of.request.pod_requests.amount(of.scores.gpu) > 1
    one = of.nodes.columns.one
    divided = (one[of.scores.rows] > 0,) if several and one.any() else ()
    return divided if of.scores.spoiled is None else (*divided, of.scores.spoiled)


def _peer_rules(of: Candidates) -> Iterable[Tier]:
    rules = of.request.peer_rules.rules
    return peer_rule_tiers(rules, of.nodes, of.scores.rows, of.scores.index, of.peers) if rules else ()


def _gang(of: Candidates) -> Iterable[Tier]:
    if not of.request.gang:
        return ()
    gang = Together(_NO_PEERS, 1) if of.request.gang == PART_ALONE else Together(of.peers, of.pods)
    counted, one_per_host = of.part is not None or gang.missing > 1, of.request.peer_rules.one_per_host
    if not (counted or gang.peers):
        return ()
    room = room_for(
        of.nodes, of.scores.rows, of.request.pod_requests, of.peers, one_per_host=one_per_host, counted=counted
    )
    room[of.scores.score == NEVER] = 0
    return gang_domains(of.nodes, of.scores.rows, room, gang, of.part, of.settings.gangs.keys)


def _fit_for_use(of: Candidates) -> Iterable[Tier]:
    if not of.nodes.metered or of.scores.gpu is None:
        return ()
    return use_tiers(of.nodes.columns, of.scores.rows, of.request.pod_requests, of.view.gpus, of.scores.gpu)


def _last_whole_nodes(of: Candidates) -> Iterable[Tier]:
    if not of.peers or not of.scores.strategy.keeps_whole_nodes:
        return ()
    columns, rows = of.nodes.columns, of.scores.rows
    kinds = whole_nodes(columns, of.view, of.request.pod_requests)
    few = [whole.among(columns, rows) for whole in kinds if whole.scarce(columns)]
    return (np.logical_or.reduce(few),) if few else ()


def _peers(of: Candidates) -> Iterable[Tier]:
    rules = of.request.spread
    return peer_rule_tiers(rules, of.nodes, of.scores.rows, of.scores.index, of.peers) if rules and of.peers else ()


def _score(of: Candidates) -> Iterable[Tier]:
    return (-of.scores.score,)


def _load(of: Candidates) -> Iterable[Tier]:
    if not of.nodes.metered or of.scores.gpu is None:
        return ()
    return of.nodes.columns.utilisation[of.scores.rows], of.nodes.columns.heat[of.scores.rows]


def _sibling(of: Candidates) -> Iterable[Tier]:
    return (of.nodes.columns.order[of.scores.rows],) if len(of.nodes.siblings) > 1 else ()


CRITERIA: Final = (
    Criterion("penalty", "the other has a soft taint, is cordoned or under pressure, or will be removed", _penalty),
    Criterion("alternatives", "more of the alternatives that its claims want most are free there", _alternatives),
    Criterion("rejections", "the other has rejected pods of the namespace after they were bound", _rejections),
    Criterion("twoStacks", "a device plugin and DRA both hand out the GPUs of the other", _two_stacks),
    Criterion("preference", "the pod's author or the policy prefers it", _preference),
    Criterion("wholeGpus", "on the other the pod would fill GPUs that several pods could share", _whole_gpus),
    Criterion("peerRules", "the pod has rules about pods of its owner, and fewer of them are near it", _peer_rules),
    Criterion("gang", "the pods of its gang are near it, or have room there", _gang),
    Criterion("fitForUse", "more of its free GPUs are fit for use by their metrics", _fit_for_use),
    Criterion("lastWholeNodes", "the other is one of the last whole nodes", _last_whole_nodes),
    Criterion("peers", "fewer pods of its owner are there, or in its zone", _peers),
    Criterion("score", "the strategy scores it higher", _score),
    Criterion("load", "its GPUs are less busy or cooler", _load),
    Criterion("replica", "it comes first for this replica of the webhook", _sibling),
)
NAME: Final = "name"
"""Stands for the order of names, which decides between nodes that are equal by all criteria."""


def best(of: Candidates) -> tuple[Indices, str]:
    """The best candidates that fit, in order, as indices into `scores.rows`; and the criterion that decided between the first
    two, or "" if there is no second."""
    named = [(criterion.name, values) for criterion in CRITERIA for values in criterion.values(of)]
    fits = of.fits.nonzero()[0]
    chosen = smallest(of.settings.nodes, [values for _, values in named], fits)
    if len(chosen) < 2:
        return chosen, ""
    first, second = chosen[:2].tolist()
    return chosen, next((name for name, values in named if values[first] != values[second]), NAME)


def smallest(count: int, keys: list[Tier], left: Indices) -> Indices:
    """The `count` smallest of the indices `left`, in order: by the first key, equal ones by the next key, at last by index."""
    sure: list[Indices] = []
    for key in keys:
        values = key if len(left) == len(key) else key[left]  # most often all are left, and to index them is the cost
        if len(values) <= count:
            break
        limit = values.min()
        equal = (values == limit).nonzero()[0]
        if len(equal) < count:
            limit = np.partition(values, count - 1)[count - 1]
            below = (values < limit).nonzero()[0]
            sure.append(left[below])
            count -= len(below)
            equal = (values == limit).nonzero()[0]
        left = equal if values is key else left[equal]
    else:
        if not sure:
            return left[:count]
    chosen = np.concatenate([*sure, left[:count]])
    chosen.sort()
    return chosen[np.lexsort([key[chosen] for key in keys[::-1]])]


class Ranker:
    """Ranks the nodes of one cluster state by equal placement settings."""

    def __init__(self, state: ClusterState, settings: PlacementSettings, gpus: Gpus) -> None:
        self._state = state
        self._settings = settings
        self._gpus = gpus
        self._scores = SharedCache[bytes, NodeScores](_MAX_SHAPES)
        """By pod signature. Without these a choice filters and scores all nodes: 0.5 ms at 1,213 nodes, 4 ms at 65,000."""
        self._unschedulable = SharedCache[tuple[bytes, PodRequests], tuple[object, tuple[Unschedulable, ...]]](
            _MAX_SHAPES
        )
        """By pod signature, with the version of the nodes and what classes serve. Controllers retry often: this saves 0.2 ms."""
        self._view = View(0, ())
        self._view_key: tuple[int, int, int, int] = (-1, -1, -1, -1)

    def place(
        self,
        request: PlacementRequest,
        metrics: MetricsStatus,
        preferences: ResolvedPreferences,
        volumes: VolumeTopology,
        asked: PodRequests,
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
        peers = self._state.usage.peers.get(request.pod.identity.owner, _NO_PEERS)
        pods = request.gang if request.gang > 1 else self._state.jobs.pods(request.pod.identity.owner) or 1
        fits = scores.score > NEVER
        for check in scores.judgement.peers(request.peer_rules, nodes, scores.rows, peers):
            fits &= check.passes
        part = part_of(request.pod, self._state.jobs, self._state.usage.peers) if request.gang else None
        chosen, decided = best(Candidates(request, nodes, scores, peers, pods, part, self._view, self._settings, fits))
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
            read=request.read,
            devices=asked.devices,
        )

    def unschedulable(self, pod: AskedPod, pod_requests: PodRequests) -> tuple[Unschedulable, ...]:
        """Why no node could take the pod if all were up and empty."""
        spec_json, key = signature_key(_required(pod.spec))
        nodes, namespace = self._state.nodes, pod.namespace
        served = self._state.device_requests.extended(pod_requests)
        version, known = (nodes.changes.position, served), self._unschedulable.get((key, pod_requests), namespace)
        if known is None or known[0] != version:
            constraints = _constraints(spec_json)
            search = None if constraints is None else Search(pod_requests, constraints, nodes, self._gpus, served)
            known = version, () if search is None else tuple(search.unschedulable())
            self._unschedulable.put((key, pod_requests), known, namespace)
        return tuple([for_pod(reason, pod.json) for reason in known[1]])

    def labels(self, pod: AskedPod, pod_requests: PodRequests, keys: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
        """The values of labels on nodes that could take the pod if they were up and empty: see `interface.Places`."""
        spec_json, _ = signature_key(_required(pod.spec))
        constraints, nodes = _constraints(spec_json), self._state.nodes
        if constraints is None:
            return frozenset()
        served = self._state.device_requests.extended(pod_requests)
        able = Feasible(constraints, pod_requests, EVER, claimed=served).ever(nodes)
        version, rows = (nodes.changes.position, self._state.slices.version), nodes.columns.rows
        groups, values = self._state.answers.get(version, ("labels", keys), lambda: nodes.labels.sets(keys, rows))
        return frozenset([values[number] for number in np.bincount(groups[able]).nonzero()[0]])

    # --- filter and score ---------------------------------------------------------------------------------------------

    def _scores_of(
        self, key: bytes, request: PlacementRequest, preferences: ResolvedPreferences, volumes: VolumeTopology
    ) -> NodeScores | None:
        """The scores for this pod signature; None if it has more constraints than can be ranked by."""
        scores = self._scores.get(key, request.pod.namespace)
        if scores is None:
            constraints = _constraints(request.spec_json)
            if constraints is None:
                return None
            ranked_by = preferences.below(constraints)
            switches = Switches(health=self._settings.health)
            judgement = Feasible(
                ranked_by, request.pod_requests, switches, volumes=volumes.terms, claims=volumes.claims
            )
            gpu = next((name for name, _ in request.pod_requests.requests if self._is_gpu(name)), None)
            size = _BYTES_PER_CHARACTER * len(request.spec_json)
            scores = NodeScores(judgement, STRATEGIES[request.strategy], gpu, size)
            left = _MAX_BYTES - sum([each.kept_bytes for each in self._scores.values()])
            while left < 0 and (evicted := self._scores.evict()):
                left += sum([each.kept_bytes for each in evicted])
            self._scores.put(key, scores, request.pod.namespace)
        return scores

    def _current_view(self) -> View:
        columns, counts = self._state.nodes.columns, self._state.request_counts
        size = self._state.nodes.count.bit_length()  # a new view when the number of nodes doubles or halves
        key = (counts.version, len(columns.capacity), len(columns.models), size)
        if key != self._view_key:
            self._view_key = key
            models = {name: number for number, name in enumerate(columns.models)}
            gpus = tuple(sorted([name for name in columns.capacity if self._is_gpu(name)]))
            self._view = View(self._view.version + 1, gpus, counts.popular(models, gpus))
        return self._view

    def _is_gpu(self, resource: str) -> bool:
        return resource.startswith(PUBLISHED) or self._gpus.kind(resource) is not None

    def _ranked(self, scores: NodeScores, chosen: Indices, peers: Peers) -> tuple[Ranked, ...]:
        """The chosen rows with the numbers that they were ranked by."""
        columns, rows = self._state.nodes.columns, scores.rows[chosen]
        gpu = scores.gpu if scores.gpu in columns.free else None
        unit = WHOLE if gpu is not None and gpu.startswith(PUBLISHED) else 1
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
