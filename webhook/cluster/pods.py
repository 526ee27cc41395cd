"""Reads a Pod object: its demand, its owner, and the nodes that were ranked for it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from webhook.cluster.node_table import Demand
from webhook.errors import QuantityError
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.pod import (
    INJECTION,
    MIRROR,
    NODE_CHOICE,
    OFF,
    PREFERRED,
    REQUIRED,
    Pod,
    annotations_of,
    controller_reference,
    in_pod_group,
    labels_of,
)
from webhook.kube.pod_requests import as_given, total_requests
from webhook.kube.record import record_of

_MAX_AMOUNT = 2**50
"""No node has more of a resource, and sums of thousands of such amounts fit into 64 bits."""
_MAX_RESOURCES, _MAX_NAMES = 64, 2048
"""Maximum number of resources of one pod, and of characters in their names together. Each is compared with every node."""
_MAX_NAME, _MAX_MODELS = 253, 64
_APP_LABELS = ("app.kubernetes.io/instance", "app.kubernetes.io/name", "app", "k8s-app", "run")
JOBSET, LWS_GROUP = "jobset.sigs.k8s.io/jobset-uid", "leaderworkerset.sigs.k8s.io/group-key"
GROUP_LABELS = (LWS_GROUP, JOBSET, "elasticjob.dlrover/name")
"""Labels of pods that belong to one workload although smaller workloads, or nothing, control them."""
_MAX_REQUESTS = 1024
"""Maximum length of requests as written whose sum is cached. Tenants write them: a few MB at most."""
_ONE_POD = Demand((("pods", 1),))
HOSTNAME = "kubernetes.io/hostname"
KUEUE = "kueue.x-k8s.io/queue-name"
SCHEDULER = "default-scheduler"


class PodKey(NamedTuple):
    """Identifies a pod, or replicas that are alike, before the pod has a name or a uid. It stays the same later."""

    namespace: str
    identity: str
    """The controller's uid; else generateName; else the name."""


def demand_of(pod: Pod) -> Demand:
    """The resources that the scheduler counts for the pod on its node. Raises QuantityError.

    Replicas have equal requests, so the last demands are cached: adding them up is most of the cost of an event.
    """
    try:
        asked = _as_asked(pod["spec"])
    except TypeError:  # a number beyond 64 bits, or a key that is no text
        return _added_up(pod["spec"])
    return _demand(asked) if len(asked) <= _MAX_REQUESTS else _demand.__wrapped__(asked)


def counted_demand(pod: Pod) -> Demand:
    """As `demand_of`, for a pod that exists: one with unreadable quantities counts as one pod and no more.

    So does a pod that requests more kinds of resources than any node has: no kubelet runs it, and nothing large is kept.
    """
    try:
        demand = demand_of(as_given(pod))
    except (TypeError, QuantityError):
        return _ONE_POD
    return demand if is_bounded(demand) else _ONE_POD


@lru_cache(4096)
def _demand(asked: bytes) -> Demand:
    containers, first, resources, overhead = orjson.loads(asked)
    spec = {
        "containers": [{"resources": each} for each in containers],
        "initContainers": [{"resources": each, "restartPolicy": policy} for each, policy in first],
        "resources": resources,
        "overhead": overhead,
    }
    return _added_up(spec)


def _added_up(spec: Mapping[str, Any]) -> Demand:
    requests = {name: min(amount, _MAX_AMOUNT) for name, amount in total_requests({"spec": spec}).items() if amount > 0}
    requests["pods"] = 1
    return Demand(tuple(sorted(requests.items())))


def _as_asked(spec: Mapping[str, Any]) -> bytes:
    """The fields of a pod that `total_requests` reads, as written. Raises TypeError if they are not JSON."""
    return orjson.dumps(
        (
            [each.get("resources") for each in spec.get("containers") or ()],
            [(each.get("resources"), each.get("restartPolicy")) for each in spec.get("initContainers") or ()],
            spec.get("resources"),
            spec.get("overhead"),
        )
    )


def is_bounded(demand: Demand) -> bool:
    """Whether a demand is small enough to keep. Tenants write the names of resources, and how many there are."""
    return len(demand.requests) <= _MAX_RESOURCES and sum([len(name) for name, _ in demand.requests]) <= _MAX_NAMES


def namespace_of(pod: Pod) -> str:
    """The namespace; "default" if a manifest in a file has none. The API server sets it before admission."""
    return (pod["metadata"].get("namespace") or "default")[:_MAX_NAME]


def owner_key(pod: Pod) -> str:
    """A key that the pods of one workload share: made of the labels of a group of workloads (JobSet, LeaderWorkerSet), else
    the controller's uid, else of an app label. "" if the pod has none of these."""
    labels = labels_of(pod)
    for key in GROUP_LABELS:
        if value := labels.get(key):
            return f"{namespace_of(pod)}/{key}={value[:_MAX_NAME]}"
    if controller := _controller(pod):
        return f"{namespace_of(pod)}/{controller}"  # a tenant may name another's controller
    for key in _APP_LABELS:
        if value := labels.get(key):
            return f"{namespace_of(pod)}/{key}={value[:_MAX_NAME]}"
    return ""


def key_of(pod: Pod) -> PodKey:
    """The key of the pod's reservation, the same at admission and in the watch."""
    metadata = pod["metadata"]
    name: str = metadata.get("generateName") or metadata.get("name") or ""
    return PodKey(namespace_of(pod), _controller(pod) or name[:_MAX_NAME])


class ReservationRequest(NamedTuple):
    """What to reserve for a pod, on whichever node. Equal for the replicas of a workload."""

    key: PodKey
    demand: Demand
    owner: str


def reservation_request(pod: Pod, demand: Demand | None = None) -> ReservationRequest:
    """The request of a pod at admission, when its name and uid may be missing. `demand`: the pod's, if known.

    Raises QuantityError.
    """
    return ReservationRequest(key_of(pod), demand or demand_of(pod), owner_key(pod))


def _controller(pod: Pod) -> str:
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference.get("uid") or "")[:_MAX_NAME]
    return ""


def pod_id(metadata: Mapping[str, Any]) -> int | str:
    """The uid as a number, which takes half the memory of its text; namespace and name if there is no uid."""
    uid = metadata.get("uid")
    if not uid:
        return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    try:
        return int(uid.replace("-", ""), 16)
    except ValueError:
        return str(uid)


def has_extended_resource(demand: Demand) -> bool:
    """Whether the pod requests an extended resource, such as GPUs. Peers and history matter only to such pods."""
    return any(["/" in name for name, _ in demand.requests])


def unmanaged_reason(pod: Pod) -> str:
    """Why this webhook leaves the node of the pod to others; "" if it does not. Looks neither at `nodeName` nor at
    `schedulerName`."""
    spec, kind = pod["spec"], (controller_reference(pod) or {}).get("kind")
    if kind == "DaemonSet":
        return "pod of a DaemonSet"
    if MIRROR in annotations_of(pod) or kind == "Node":
        return "static pod"
    if spec.get("schedulingGates"):
        return "scheduling gates"
    if KUEUE in labels_of(pod):
        return "managed by Kueue"
    if in_pod_group(pod):
        return "pod group"
    annotations = annotations_of(pod)
    off = OFF in (annotations.get(NODE_CHOICE), annotations.get(INJECTION))
    return "its annotation leaves it to the scheduler" if off else ""


def ranked_nodes(pod: Pod) -> tuple[str, ...]:
    """The nodes that admission ranked for this pod, best first; () if there are none.

    Anybody can write the annotation. So it counts only if the pod's node affinity agrees: the first node must be the
    first preference there, or required, and only nodes that the affinity names count. It does not count for pods that
    admission ranks no nodes for.
    """
    names = [entry[0] for entry in record_of(pod).get("nodes", ())]
    if not names or unmanaged_reason(pod):
        return ()
    preferred, required = named_nodes(pod["spec"])
    if (pod["spec"].get("schedulerName") or SCHEDULER) != SCHEDULER:
        preferred = []  # the policy may let such pods have a node, but as a required one only
    if not ((preferred and preferred[0] == names[0]) or names[0] in required):
        return ()
    known = {*preferred, *required}
    return tuple([name for name in names if name in known])


def named_nodes(spec: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The nodes that a pod's affinity names: the preferred ones by falling weight, and the required ones."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    weighed = sorted(affinity.get(PREFERRED) or (), key=lambda term: term.get("weight") or 0, reverse=True)
    preferred = [name for term in weighed for name in _names_in(term.get("preference") or {})]
    selector = affinity.get(REQUIRED) or {}
    required = [name for term in selector.get("nodeSelectorTerms") or () for name in _names_in(term)]
    return preferred, required


def _names_in(term: Mapping[str, Any]) -> list[str]:
    for part, key in (("matchFields", "metadata.name"), ("matchExpressions", HOSTNAME)):
        for expression in term.get(part) or ():
            if expression.get("key") == key and expression.get("operator") == "In":
                return list(expression.get("values") or ())
    return []


def pinned_models(spec: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The GPU models that a pod is confined to, by its node selector or by every term of its node affinity; None: any."""
    if selector := spec.get("nodeSelector"):
        for key in MODEL_LABELS:
            if key in selector:
                return (selector[key][:_MAX_NAME],)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    if not affinity:
        return None
    required = affinity.get(REQUIRED) or {}
    models: set[str] = set()
    for term in required.get("nodeSelectorTerms") or ():
        allowed = [
            e.get("values") or ()
            for e in term.get("matchExpressions") or ()
            if e.get("key") in MODEL_LABELS and e.get("operator") == "In"
        ]
        if not allowed:
            return None
        models.update([name[:_MAX_NAME] for name in allowed[0]])
    return tuple(sorted(models))[:_MAX_MODELS] or None
