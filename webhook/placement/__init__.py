"""Filter, score, choose: the ranked nodes for one pod, and why.

`place` is what `choose` does with a request. Nothing here changes the cluster state; scores of pod shapes are kept
beside it (`Snapshot.state.memo`) and brought up to date by what changed.
"""

from __future__ import annotations

from webhook.cluster.pods import demand_of
from webhook.cluster.snapshot import Snapshot
from webhook.errors import QuantityError
from webhook.gpus import GpuName, Gpus
from webhook.interface import Context, Placement, Rejected
from webhook.placement.eligible import ineligible
from webhook.placement.ranker import Ranker
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import STRATEGIES
from webhook.pod import Pod, claims_devices

__all__ = ["choose", "demand_of", "fits_empty", "place"]

_RANKERS = 6
_MOST_RESOURCES = 64
"""Of one pod: each is looked at on every node."""


def choose(pod: Pod, context: Context, settings: PlacementSettings) -> Placement:
    """The ranked nodes for the pod of a request, or the reason why there are none."""
    if not isinstance(context.cluster, Snapshot):
        return Placement((), context.strategy, "cluster state is not known")
    return place(pod, context.cluster, settings, context.strategy, context.gpus)


def place(pod: Pod, snapshot: Snapshot, settings: PlacementSettings, strategy: str, gpus: Gpus) -> Placement:
    """Rank nodes for `pod` as it will be stored. `strategy`: "spread", "pack" or "off".

    Same input, same answer. Where no node is chosen `reason` is a constant phrase, and `rejected` says why none fits.
    """
    if strategy not in STRATEGIES:
        return Placement((), strategy, "the policy leaves it to the scheduler")
    if reason := ineligible(pod):
        return Placement((), strategy, reason)
    if not snapshot.fresh:
        return Placement((), strategy, "cluster state is stale")
    try:
        demand = demand_of(pod)
    except QuantityError:
        return Placement((), strategy, "a request is not a quantity")
    if not gpus.among([name for name, _ in demand.requests]):
        return Placement((), strategy, "GPUs only through DRA" if claims_devices(pod) else "no GPU is asked for")
    if len(demand.requests) > _MOST_RESOURCES:
        return Placement((), strategy, "too many resources are asked for")
    return _ranker(snapshot, settings, gpus).place(pod, demand, strategy)


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
    rankers: dict[tuple[bytes, tuple[GpuName, ...]], Ranker] = snapshot.state.memo.setdefault("rankers", {})
    key = settings.ranking, gpus.names
    found = rankers.pop(key, None)
    if found is None:
        if len(rankers) >= _RANKERS:
            del rankers[next(iter(rankers))]
        found = Ranker(snapshot.state, settings, gpus)
    rankers[key] = found
    return found
