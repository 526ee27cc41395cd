"""The order of nodes for a pod, as one list of criteria. The first criterion by which two nodes differ decides.

A strategy gives the score, and says whether the criterion `peers` counts. Nodes that are equal by all
criteria are ordered by name.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node import SHARED
from webhook.cluster.node_table import View
from webhook.cluster.nodes import Nodes
from webhook.placement.constraints import Mask
from webhook.placement.gangs import gang_domains, room_for
from webhook.placement.node_scores import NEVER, NodeScores
from webhook.placement.peer_rules import Peers, Tier, peer_rule_tiers
from webhook.placement.request import PlacementRequest
from webhook.placement.settings import PlacementSettings
from webhook.placement.use import use_tiers

Indices = NDArray[np.intp]


class Candidates(NamedTuple):
    """The nodes to choose from, `scores.rows`, and what the criteria read besides."""

    request: PlacementRequest
    nodes: Nodes
    scores: NodeScores
    peers: Peers
    pods: int
    """Number of pods of the gang; 1 if that is not known."""
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


def _preference(of: Candidates) -> Iterable[Tier]:
    return () if of.scores.preference is None else (-of.scores.preference,)


def _whole_gpus(of: Candidates) -> Iterable[Tier]:
    if of.scores.spoiled is not None:
        return (of.scores.spoiled,)
    several = of.scores.gpu == SHARED and of.request.demand.amount(SHARED) > 1
    return (of.nodes.columns.sharing[of.scores.rows] > 1,) if several else ()


def _peer_rules(of: Candidates) -> Iterable[Tier]:
    return peer_rule_tiers(of.request.peer_rules.apart, of.nodes, of.scores.rows, of.peers)


def _gang(of: Candidates) -> Iterable[Tier]:
    if not of.request.gang:
        return ()
    one_per_host = of.request.peer_rules.one_per_host
    room = room_for(of.nodes, of.scores.rows, of.request.demand, of.peers, one_per_host=one_per_host)
    room[of.scores.score == NEVER] = 0
    return gang_domains(of.nodes, of.scores.rows, room, of.peers, of.pods, of.settings.gangs.keys)


def _fit_for_use(of: Candidates) -> Iterable[Tier]:
    if not of.nodes.metered or of.scores.gpu is None:
        return ()
    return use_tiers(of.nodes.columns, of.scores.rows, of.request.demand, of.view.gpus, of.scores.gpu)


def _peers(of: Candidates) -> Iterable[Tier]:
    return peer_rule_tiers(of.request.apart, of.nodes, of.scores.rows, of.peers) if of.peers else ()


def _score(of: Candidates) -> Iterable[Tier]:
    return (-of.scores.score,)


def _load(of: Candidates) -> Iterable[Tier]:
    if not of.nodes.metered or of.scores.gpu is None:
        return ()
    return of.nodes.columns.utilisation[of.scores.rows], of.nodes.columns.heat[of.scores.rows]


def _replica(of: Candidates) -> Iterable[Tier]:
    return (of.nodes.columns.order[of.scores.rows],) if len(of.nodes.replicas) > 1 else ()


CRITERIA: Final = (
    Criterion("penalty", "the other has a soft taint, is cordoned or under pressure, or will be removed", _penalty),
    Criterion("alternatives", "more of the alternatives that its claims want most are free there", _alternatives),
    Criterion("rejections", "the other has rejected pods of the namespace after they were bound", _rejections),
    Criterion("preference", "the pod's author or the policy prefers it", _preference),
    Criterion("wholeGpus", "the pod would take GPUs of the other whole that others could share", _whole_gpus),
    Criterion("peerRules", "the pod has rules about pods of its owner, and fewer of them are near it", _peer_rules),
    Criterion("gang", "the pods of its gang are near it, or have room there", _gang),
    Criterion("fitForUse", "more of its free GPUs are fit for use by their metrics", _fit_for_use),
    Criterion("peers", "fewer pods of its owner are there, or in its zone", _peers),
    Criterion("score", "the strategy scores it higher", _score),
    Criterion("load", "its GPUs are less busy or cooler", _load),
    Criterion("replica", "it comes first for this replica of the webhook", _replica),
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
