"""What placement needs to know of a pod, apart from the cluster; and whether its node is ours to choose."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from webhook.cluster.jobs import workload_key
from webhook.cluster.node_table import Demand
from webhook.cluster.pods import demand_of, is_short, left_to_others, namespace_of, owner_key
from webhook.errors import QuantityError
from webhook.framework.cluster_view import Placement
from webhook.kube.gpus import Gpus
from webhook.kube.other_gpus import other_gpus
from webhook.kube.pod import Pod, claims_devices, labels_of, owner
from webhook.placement.company import ALONE, Company, company_of
from webhook.placement.gangs import gang_size
from webhook.placement.preferences import Preferences, preferences_of
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import STRATEGIES
from webhook.placement.volumes import NO_CLAIMS, Claims, claims_of

Spec = Mapping[str, Any]
_MAX_KEY = 512


class PlacementRequest(NamedTuple):
    """Equal for pods that get the same nodes under the same settings."""

    strategy: str
    demand: Demand
    stated: bytes
    """What decides where the pod may go, as JSON: see `spec_of`."""
    owner: str
    """The owner of its peers; "" for a pod without an owner."""
    gang: int
    """How many pods the gang has; 1 where that is not known; 0 for a pod that is in no gang."""
    key: bytes
    """All that scores depend on (`stated`, the demand, the strategy), as bytes of bounded length."""
    workload: str = ""
    """The workload that made the pod, as `jobs.workload_key` names it; "" where none did."""
    company: Company = ALONE
    claims: Claims = NO_CLAIMS
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    """Of the pod, for what others say about it."""
    preferences: Preferences | None = None
    """Those of its annotations and of the policy, besides its own affinity."""


def shape_key(spec: Spec) -> tuple[bytes, bytes]:
    """What decides where a pod may go, as JSON, and a key for it of bounded length."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    stated = orjson.dumps([spec.get("nodeSelector"), affinity, spec.get("tolerations")], option=orjson.OPT_SORT_KEYS)
    return stated, stated if len(stated) <= _MAX_KEY else blake2b(stated, digest_size=32).digest()


def spec_of(stated: bytes) -> Spec:
    """The spec that `shape_key` was made from, as far as it says where the pod may go."""
    selector, affinity, tolerations = orjson.loads(stated)
    return {"nodeSelector": selector, "affinity": {"nodeAffinity": affinity}, "tolerations": tolerations}


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
    if other_gpus(pod):
        return Placement((), strategy, "GPUs that another scheduler serves")
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
    gang, made_by = gang_size(pod, settings.gangs), owner(pod)
    maker = "" if made_by is None else workload_key(namespace_of(pod), made_by.kind, made_by.name)
    return PlacementRequest(
        strategy,
        demand,
        stated,
        owner_key(pod),
        gang,
        key,
        maker,
        company_of(pod),
        claims_of(pod),
        namespace_of(pod),
        tuple(labels_of(pod).items()),
        preferences,
    )


def ineligible(pod: Pod) -> str:
    """Why no node is to be chosen for this pod; "" where one may be."""
    return left_to_others(pod) or ("nodeName is set" if pod["spec"].get("nodeName") else "")
