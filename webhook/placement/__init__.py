"""Filter, score, choose: the ranked nodes for one pod, and why.

`ask_of` reads the pod, `answer` looks at the cluster, `place` does both. Equal pods have equal asks, so whoever knows that two
pods are alike reads only the first. Nothing here changes the cluster state; scores of pod shapes are kept beside it
(`Snapshot.state.memo`) and brought up to date by what changed.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson

from webhook.cluster.pods import demand_of, owner_key
from webhook.cluster.snapshot import Snapshot
from webhook.errors import QuantityError
from webhook.facts import Placement, Rejected
from webhook.gpus import GpuName, Gpus
from webhook.placement.ask import Ask, shape_key
from webhook.placement.eligible import ineligible
from webhook.placement.gangs import gang_size
from webhook.placement.ranker import Ranker
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import STRATEGIES
from webhook.placement.wishes import NO_PREFERENCES, preferences_of, resolved
from webhook.pod import Pod, claims_devices

__all__ = ["Ask", "Rank", "answer", "ask_of", "demand_of", "fits_empty", "place"]

Rank = Callable[[Ask, Snapshot, PlacementSettings, Gpus], Placement]
"""As `answer`, which it is but for what the caller wants to know of it."""
_RANKERS = 6
_MOST_RESOURCES = 64
"""Of one pod: each is looked at on every node."""


def place(
    pod: Pod, snapshot: Snapshot, settings: PlacementSettings, strategy: str, gpus: Gpus, workload: str = ""
) -> Placement:
    """Rank nodes for `pod` as it will be stored. `strategy`: "apart", "spread", "pack" or "off".

    Same input, same answer. Where no node is chosen `reason` is a constant phrase, and `rejected` says why none fits.
    """
    ask = ask_of(pod, settings, strategy, gpus, workload)
    return ask if isinstance(ask, Placement) else answer(ask, snapshot, settings, gpus)


def ask_of(pod: Pod, settings: PlacementSettings, strategy: str, gpus: Gpus, workload: str = "") -> Ask | Placement:
    """What `answer` needs of a pod, whatever the state of the cluster; a Placement where no node is to be chosen.

    It keeps nothing of `pod` itself. Pods with equal specs, owners, labels and annotations have equal asks.
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
    if len(demand.requests) > _MOST_RESOURCES:
        return Placement((), strategy, "too many resources are asked for")
    stated, shape = shape_key(pod["spec"])
    key = b"%b\0%b\0%b" % (strategy.encode(), orjson.dumps(demand.requests), shape)
    return Ask(strategy, demand, stated, owner_key(pod), gang_size(pod, settings.gangs), key, preferences)


def answer(ask: Ask, snapshot: Snapshot, settings: PlacementSettings, gpus: Gpus) -> Placement:
    """Rank nodes for a pod with this ask. `settings` and `gpus`: those that the ask was made with."""
    preferences = NO_PREFERENCES if ask.preferences is None else resolved(ask.preferences, snapshot, gpus)
    if ask.strategy not in STRATEGIES:
        found = Placement((), ask.strategy, "the policy leaves it to the scheduler")
    elif not snapshot.fresh:
        found = Placement((), ask.strategy, "cluster state is stale")
    else:
        found = _ranker(snapshot, settings, gpus).place(ask, preferences)
    if preferences is NO_PREFERENCES:
        return found
    by_name = () if found.nodes else preferences.by_name
    return found._replace(preferred=by_name or preferences.preferred, warning=preferences.warning)


def fits_empty(pod: Pod, snapshot: Snapshot, settings: PlacementSettings, gpus: Gpus) -> Rejected:
    """Why no node could take `pod` even if all of them were up and empty.

    () where some node could, where the node is not the scheduler's to choose, and where nobody can tell.
    """
    if not snapshot.fresh or ineligible(pod):
        return ()
    try:
        demand = demand_of(pod)
    except QuantityError:
        return ()
    if not gpus.among([name for name, _ in demand.requests]):
        return ()
    return _ranker(snapshot, settings, gpus).fits_empty(pod, demand)


def _ranker(snapshot: Snapshot, settings: PlacementSettings, gpus: Gpus) -> Ranker:
    """The ranker of these settings: one for all profiles and policies that rank alike, a few of the policies before."""
    memo = snapshot.state.memo
    last = memo.get("ranker")
    if last is not None and last[0] is settings and last[1] is gpus:
        ranker: Ranker = last[2]
        return ranker
    rankers: dict[tuple[bytes, tuple[GpuName, ...]], Ranker] = memo.setdefault("rankers", {})
    key = settings.ranking, gpus.names
    found = rankers.pop(key, None)
    if found is None:
        if len(rankers) >= _RANKERS:
            del rankers[next(iter(rankers))]
        found = Ranker(snapshot.state, settings, gpus)
    rankers[key] = found
    memo["ranker"] = settings, gpus, found
    return found
