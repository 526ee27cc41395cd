"""Reads of a pod what placement needs: its demand, its owner, and the nodes that were ranked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from webhook.cluster.node_table import Demand
from webhook.errors import QuantityError
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.pod import DECISION, MIRROR, PREFERRED, Pod, annotations_of, labels_of, owner
from webhook.kube.pod_requests import total_requests

_MAX_AMOUNT = 2**50  # a pod that asks for more fits nowhere; thousands of them still add up in 64 bits
_MAX_RECORD = 8192
_MAX_RESOURCES, _MAX_NAMES = 64, 2048
"""Of one pod, and the characters of their names together: each is looked at on every node."""
_MAX_NAME, _MAX_MODELS = 253, 64
_APP_LABELS = ("app.kubernetes.io/instance", "app.kubernetes.io/name", "app", "k8s-app", "run")
JOBSET, LWS_GROUP = "jobset.sigs.k8s.io/jobset-uid", "leaderworkerset.sigs.k8s.io/group-key"
GROUP_LABELS = (LWS_GROUP, JOBSET)
"""Set by the controllers of workloads whose pods belong to several smaller ones."""
_MAX_STATED, _MAX_DEMANDS = 1024, 4096
"""What is kept of demands: characters of each, and how many. Tenants write them: some MB at most."""
_demands: dict[bytes, Demand] = {}
_ALONE = Demand((("pods", 1),))
HOSTNAME = "kubernetes.io/hostname"
KUEUE = "kueue.x-k8s.io/queue-name"
SCHEDULER = "default-scheduler"


class PodKey(NamedTuple):
    """What is known of a pod before it has a name or a uid, and is still true when it has both."""

    namespace: str
    identity: str
    """The controller's uid; else generateName; else the name."""


def demand_of(pod: Pod) -> Demand:
    """What the scheduler will count for the pod on its node. Raises QuantityError."""
    requests = {name: min(amount, _MAX_AMOUNT) for name, amount in total_requests(pod).items() if amount > 0}
    requests["pods"] = 1
    return Demand(tuple(sorted(requests.items())))


def counted_demand(pod: Pod) -> Demand:
    """As `demand_of`, for a pod that exists: one whose quantities we cannot read counts as one pod and no more.

    So does one that asks for more resources than any node has: no kubelet runs it, and what is kept of it stays small.
    Replicas state the same, so the last demands are kept: to add them up is most of what an event costs.
    """
    try:
        stated = _stated(pod["spec"])
    except TypeError:  # a number beyond 64 bits, or no text where text belongs: `demand_of` says so
        stated = b""
    if (known := _demands.get(stated)) is not None:
        return known
    try:
        demand = demand_of(pod)
    except QuantityError:
        return _ALONE
    if not is_short(demand):
        return _ALONE
    if 0 < len(stated) <= _MAX_STATED:
        if len(_demands) >= _MAX_DEMANDS:
            _demands.clear()
        _demands[stated] = demand
    return demand


def _stated(spec: Mapping[str, Any]) -> bytes:
    """All that `total_requests` reads of a pod, as written. Raises TypeError where that is no JSON."""
    return orjson.dumps(
        (
            [container.get("resources") for container in spec.get("containers") or ()],
            [
                (container.get("resources"), container.get("restartPolicy"))
                for container in spec.get("initContainers") or ()
            ],
            spec.get("resources"),
            spec.get("overhead"),
        )
    )


def is_short(demand: Demand) -> bool:
    """Whether so much may be kept of a pod: tenants write the names of resources, and how many there are."""
    return len(demand.requests) <= _MAX_RESOURCES and sum([len(name) for name, _ in demand.requests]) <= _MAX_NAMES


def namespace_of(pod: Pod) -> str:
    """The API server fills it in before admission; a file may leave it out."""
    return (pod["metadata"].get("namespace") or "default")[:_MAX_NAME]


def owner_key(pod: Pod) -> str:
    """What pods of one workload share; "" for a pod on its own.

    The labels of a group of workloads (JobSet, LeaderWorkerSet), else the controller's uid, else an app label.
    """
    labels = labels_of(pod)
    for key in GROUP_LABELS:
        if value := labels.get(key):
            return f"{namespace_of(pod)}/{key}={value[:_MAX_NAME]}"
    if controller := _controller(pod):
        return controller
    for key in _APP_LABELS:
        if value := labels.get(key):
            return f"{namespace_of(pod)}/{key}={value[:_MAX_NAME]}"
    return ""


def key_of(pod: Pod) -> PodKey:
    """The key under which a reservation for this pod is kept, the same at admission and in the watch."""
    metadata = pod["metadata"]
    name: str = metadata.get("generateName") or metadata.get("name") or ""
    return PodKey(namespace_of(pod), _controller(pod) or name[:_MAX_NAME])


class ReservationRequest(NamedTuple):
    """What is reserved for a pod, whatever the node. Equal for the replicas of a workload."""

    key: PodKey
    demand: Demand
    owner: str


def reservation_request(pod: Pod, demand: Demand | None = None) -> ReservationRequest:
    """For a pod as it was admitted: name and uid may be missing. `demand`: of the pod, where it is known.

    Raises QuantityError.
    """
    return ReservationRequest(key_of(pod), demand or demand_of(pod), owner_key(pod))


def _controller(pod: Pod) -> str:
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference.get("uid") or "")[:_MAX_NAME]
    return ""


def pod_id(metadata: Mapping[str, Any]) -> int | str:
    """The uid as a number (half the memory of its text); namespace and name where there is none."""
    uid = metadata.get("uid")
    if not uid:
        return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    try:
        return int(uid.replace("-", ""), 16)
    except ValueError:
        return str(uid)


def is_gpu_like(demand: Demand) -> bool:
    """Whether the pod asks for any extended resource: only then do its peers and its popularity matter."""
    return any(["/" in name for name, _ in demand.requests])


def left_to_others(pod: Pod) -> str:
    """Why it is not for us to say where this pod goes; "" where it is, unless it has a node."""
    spec, controller = pod["spec"], owner(pod)
    if controller is not None and controller.kind == "DaemonSet":
        return "pod of a DaemonSet"
    if MIRROR in annotations_of(pod) or (controller is not None and controller.kind == "Node"):
        return "static pod"
    if spec.get("schedulingGates"):
        return "scheduling gates"
    if KUEUE in labels_of(pod):
        return "managed by Kueue"
    return "another scheduler" if (spec.get("schedulerName") or SCHEDULER) != SCHEDULER else ""


def ranked_nodes(pod: Pod) -> tuple[str, ...]:
    """The nodes that admission ranked for this pod, best first; () where there are none.

    Anybody can write the annotation. It counts only as far as the spec says the same: the first node must be the
    spec's own first preference, or be required by it, and the others must be named there too. It does not for a pod that
    admission ranks no nodes for: its author could have it wait for ever, and hold GPUs.
    """
    names = _recorded(pod)
    if not names or left_to_others(pod):
        return ()
    preferred, required = named_nodes(pod["spec"])
    if not ((preferred and preferred[0] == names[0]) or names[0] in required):
        return ()
    known = {*preferred, *required}
    return tuple([name for name in names if name in known])


def _recorded(pod: Pod) -> list[str]:
    """The nodes in the pod's decision annotation, whoever wrote it."""
    text = annotations_of(pod).get(DECISION)
    if not text or len(text) > _MAX_RECORD:
        return []
    try:
        listed = orjson.loads(text)["nodes"]
        return [str(entry[0] if isinstance(entry, list) else entry) for entry in listed]
    except (orjson.JSONDecodeError, KeyError, TypeError, IndexError):
        return []


def named_nodes(spec: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The nodes that a pod's affinity calls by name: preferred, by falling weight, and required."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    weighed = sorted(affinity.get(PREFERRED) or (), key=_weight, reverse=True)
    preferred = [name for term in weighed for name in _names_in(term.get("preference") or {})]
    selector = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    required = [name for term in selector.get("nodeSelectorTerms") or () for name in _names_in(term)]
    return preferred, required


def _weight(term: Mapping[str, Any]) -> int:
    return term.get("weight") or 0


def _names_in(term: Mapping[str, Any]) -> list[str]:
    for part, key in (("matchFields", "metadata.name"), ("matchExpressions", HOSTNAME)):
        for expression in term.get(part) or ():
            if expression.get("key") == key and expression.get("operator") == "In":
                return list(expression.get("values") or ())
    return []


def pinned_models(spec: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The GPU models that a pod is confined to by its selector or by every term of its affinity; None: any."""
    if selector := spec.get("nodeSelector"):
        for key in MODEL_LABELS:
            if key in selector:
                return (selector[key][:_MAX_NAME],)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    if not affinity:
        return None
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
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
