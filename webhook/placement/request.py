"""The placement request: what placement reads of a pod, whatever the cluster; or why no node is to be chosen."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from webhook.devices.claims import PodClaims, claims_of
from webhook.devices.sources import only_of_parts, scheduler_of, shared_claims
from webhook.devices.types import DeviceClaim
from webhook.errors import QuantityError
from webhook.framework.cluster_view import Placement
from webhook.framework.node_terms import unchecked_part
from webhook.kube.asked import AskedPod
from webhook.kube.pod import PREFERRED, REQUIRED, SCHEDULER
from webhook.kube.pod_requests import PodRequests, is_bounded
from webhook.placement.gangs import gang_size
from webhook.placement.peer_rules import NO_PEER_RULES, PeerRule, PeerRules, peer_rules_of, spread_rules
from webhook.placement.preferences import Preferences, preferences_of
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import STRATEGIES, spreads
from webhook.placement.volumes import NO_VOLUME_CLAIMS, VolumeClaims, volume_claims_of

Spec = Mapping[str, Any]
_MAX_KEY = 512
NO_GPU = "no GPU is asked for"
OTHERS_GPUS = "GPUs that another scheduler serves"


class PlacementRequest(NamedTuple):
    """A pod, and what placement derives from it by the settings of its profile."""

    pod: AskedPod
    strategy: str
    pod_requests: PodRequests
    """What is compared with nodes: most often that of the pod."""
    spec_json: bytes
    """Node selector, node affinity and tolerations as JSON: see `spec_of`."""
    gang: int
    """Number of pods of the gang; 1 if that is not known; 0 for a pod in no gang; or `gangs.PART_ALONE`."""
    key: bytes
    """All that scores depend on (`spec_json`, requests, strategy), as bytes of bounded length."""
    spread: tuple[PeerRule, ...] = ()
    """How its strategy keeps it from its peers."""
    peer_rules: PeerRules = NO_PEER_RULES
    volume_claims: VolumeClaims = NO_VOLUME_CLAIMS
    claims: PodClaims = ()
    """Its ResourceClaims."""
    shared: tuple[DeviceClaim, ...] = ()
    """The parts of GPUs that it asks for: see `devices.sources`."""
    preferences: Preferences | None = None
    """The preferences of its annotations and of the policy."""
    required: bool = False
    """Whether its scheduler does not weigh preferences: the first node is required."""

    @property
    def read(self) -> str:
        """A hash of all that is read of the pod but its requests, for the decision record. It is the same in all processes."""
        parts = (  # as plain tuples, whose text costs less, where every pod has one
            *(self.strategy, self.gang, *self.peer_rules, *self.volume_claims, self.claims, self.shared),
            *(self.preferences, self.required, *self.pod.identity[1:]),
        )
        return blake2b(self.spec_json + repr(parts).encode(), digest_size=6).hexdigest()


def signature_key(spec: Spec) -> tuple[bytes, bytes]:
    """Node selector, node affinity and tolerations of a pod as JSON, and a key for these of bounded length."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    given = {kind: affinity[kind] for kind in (REQUIRED, PREFERRED) if affinity.get(kind) not in (None, [])}
    fields = [spec.get("nodeSelector") or None, given or None, spec.get("tolerations") or None]
    spec_json = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return spec_json, spec_json if len(spec_json) <= _MAX_KEY else blake2b(spec_json, digest_size=32).digest()


def spec_of(spec_json: bytes) -> Spec:
    """The fields of the pod spec that `shape_key` wrote."""
    selector, affinity, tolerations = orjson.loads(spec_json)
    return {"nodeSelector": selector, "affinity": {"nodeAffinity": affinity}, "tolerations": tolerations}


def placement_request(
    pod: AskedPod, settings: PlacementSettings, strategy: str, workload: str = ""
) -> PlacementRequest | Placement:
    """The placement request of a pod, or a Placement without nodes if no node is to be chosen.

    `workload`: the class of the pod, for the preferences of the policy.
    """
    preferences = preferences_of(pod.json, settings.preferences, workload)
    if strategy not in STRATEGIES and preferences is None:
        return Placement((), strategy, reason="the policy leaves it to the scheduler")
    if reason := ineligible(pod, settings.required_for):
        return Placement((), strategy, reason=reason)
    required = scheduler_of(pod.json, pod.other_gpus) != SCHEDULER
    if required and (part := unchecked_part(pod.spec)):
        return Placement((), strategy, reason=f"another scheduler, and {part}")
    shared = shared_claims(pod.json) if pod.other_gpus else ()
    if pod.other_gpus and not shared:
        return Placement((), strategy, reason=OTHERS_GPUS)
    try:
        pod_requests = pod.pod_requests
    except QuantityError:
        return Placement((), strategy, reason="a request is not a quantity")
    if required and (names := only_of_parts(shared)):
        pod_requests = pod_requests._replace(
            requests=tuple([each for each in pod_requests.requests if each[0] not in names])
        )
    asked = pod.gpus.among([name for name, _ in pod_requests.requests]) or shared or pod.claims_devices
    if not (asked or settings.every_pod):
        return Placement((), strategy, reason=NO_GPU)
    if not is_bounded(pod_requests):
        return Placement((), strategy, reason="too many resources are asked for")
    spec_json, signature = signature_key(pod.spec)
    gang = gang_size(pod, settings.gangs)
    spread = spread_rules(spread=spreads(strategy), gang=gang != 0)
    return PlacementRequest(
        pod=pod,
        strategy=strategy,
        pod_requests=pod_requests,
        spec_json=spec_json,
        gang=gang,
        spread=spread,
        key=b"%b\0%b\0%b" % (strategy.encode(), orjson.dumps(pod_requests.requests), signature),
        peer_rules=peer_rules_of(pod.json, spread),
        volume_claims=volume_claims_of(pod.json, pod.owner),
        claims=claims_of(pod.json),
        shared=shared,
        preferences=preferences,
        required=required,
    )


def ineligible(pod: AskedPod, schedulers: tuple[str, ...] = ()) -> str:
    """Why no node is to be chosen for this pod; "" if one may be chosen. `schedulers`: the others whose pods get one."""
    if reason := pod.unmanaged or ("nodeName is set" if pod.spec.get("nodeName") else ""):
        return reason
    if (pod.spec.get("schedulerName") or SCHEDULER) not in (SCHEDULER, *schedulers):
        return "another scheduler"
    return "" if scheduler_of(pod.json, pod.other_gpus) in (SCHEDULER, *schedulers) else OTHERS_GPUS
