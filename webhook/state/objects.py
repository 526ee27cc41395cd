"""The objects that the state is made of: their kinds and names, which kinds are listed and alive, and what is kept of those that
are looked up by name. Of each object only what admission needs is kept.

HorizontalPodAutoscalers: which workload each one scales, and to how many replicas at most.

Follows autoscaling/v2: `scaleTargetRef` names the group, kind and name of an object in the same namespace. Only targets
in the group apps are kept. With another group, or none, the autoscaler finds no object of these kinds and does nothing.

ResourceQuotas that count pods by their PriorityClass. Of each, its namespace, name and scopes are kept.

Follows pkg/quota/v1/evaluator/core/pods.go (podMatchesScopeFunc, podMatchesSelector): a pod without a PriorityClass is outside
of `In` and `Exists`, and within `NotIn` and `DoesNotExist`. What a quota counts besides, and how much, does not matter here.

LimitRanges by namespace: which amounts a pod gets that states none, and which are refused.

Follows LimitRange of core/v1 with SetDefaults_LimitRangeItem (pkg/apis/core/v1/defaults.go), which a file may lack: the largest
limit is the default limit, and that or the smallest request is the default request.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from sys import intern
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, get_args

import orjson

from webhook.framework.cluster_view import Autoscaler, LimitRange, Limits, PriorityClass, RuntimeClass
from webhook.kube.kinds import KINDS
from webhook.kube.pod import MAX_NAME, pod_id
from webhook.kube.stores import Grouped, full_name

ListKind = Literal[
    "nodes",
    "pods",
    "priorityclasses",
    "runtimeclasses",
    "limitranges",
    "namespaces",
    "resourceslices",
    "devicetaintrules",
    "deviceclasses",
    "resourceclaims",
    "resourceclaimtemplates",
    "resourcequotas",
    "horizontalpodautoscalers",
    "jobs",
    "persistentvolumeclaims",
    "persistentvolumes",
    "nodepools",
]
REQUIRED: Final[tuple[ListKind, ...]] = ("nodes", "pods", "priorityclasses", "namespaces")
"""No node is chosen before these are listed. The other kinds are optional."""
DEVICE_KINDS: Final = frozenset[ListKind](
    ("resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses")
)
"""No device of DRA is given before these are listed: all would look free."""
STATE_KINDS: Final[Mapping[str, ListKind]] = {
    name: plural for name, kind in KINDS.items() for plural in get_args(ListKind) if plural == kind.plural
}
"""The kinds that the cluster state is made of, by their names in objects."""
T = TypeVar("T")
_TOPOLOGY_LABELS: Final = frozenset(
    (
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
    )
)
_NARROW: Final = ("ReadWriteOnce", "ReadWriteOncePod")
"""Access modes with which only one node, or only one pod, can use a volume."""
_SCALED_KINDS: Final = frozenset(("Deployment", "ReplicaSet", "StatefulSet"))
_MAX_AUTOSCALERS: Final = 100
"""Maximum number of autoscalers of one workload. One is normal; tenants may create any number."""
_SCOPE: Final = "PriorityClass"
_MAX_QUOTAS: Final = 100
"""Maximum number of quotas of one namespace that are searched. Tenants may be allowed to create them."""
_MAX_LIMIT_RANGE: Final = 8192
"""Maximum size of `spec.limits` as JSON. Pods are judged without a larger LimitRange."""
_MAX_LIMIT_RANGES: Final = 8
"""Maximum number of LimitRanges of one namespace that a pod is judged by, the first by name."""
_LIMITED_KINDS: Final = ("Container", "Pod")


class Index(Protocol):
    """Keeps the objects of one kind that are looked up by name. Iterates over their names, as `name_of` returns them."""

    def seen(self, obj: Mapping[str, Any], /) -> None: ...

    def gone(self, name: str, /) -> None: ...

    def __iter__(self) -> Iterator[str]: ...


def name_of(kind: ListKind, obj: Mapping[str, Any]) -> int | str:
    """The name that identifies an object: the uid for pods (see `pods.pod_id`), else the name, after the namespace if it
    has one."""
    return pod_id(obj["metadata"]) if kind == "pods" else full_name(obj)


class Freshness:
    """Which kinds are listed, and when the watch of each was last alive. `max_age`: seconds, of the same clock as every
    `now`."""

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self.listed: frozenset[ListKind] = frozenset()
        """The kinds whose list is complete and that are still served."""
        self.heard_at: dict[ListKind, float] = {}

    def complete(self, kind: ListKind, now: float) -> None:
        self.listed |= {kind}
        self.heard(kind, now)

    def withdraw(self, kind: ListKind) -> None:
        self.listed -= {kind}
        self.heard_at.pop(kind, None)

    def heard(self, kind: ListKind, now: float) -> None:
        self.heard_at[kind] = now

    def fresh(self, now: float) -> bool:
        """Whether every kind in REQUIRED is listed, and its watch was alive within the last `max_age` seconds."""
        known = self.listed.issuperset(REQUIRED)
        return known and now <= min([self.heard_at[kind] for kind in REQUIRED]) + self._max_age


class ByName(dict[str, T]):
    """What `read` keeps of each object, by name; by namespace and name for objects in a namespace."""

    def __init__(self, read: Callable[[Mapping[str, Any]], T]) -> None:
        super().__init__()
        self._read = read

    def seen(self, obj: Mapping[str, Any]) -> None:
        """An object was added or changed."""
        self[full_name(obj)] = self._read(obj)

    def gone(self, name: str) -> None:
        self.pop(name, None)


def labels(namespace: Mapping[str, Any]) -> Mapping[str, str]:
    return namespace["metadata"].get("labels") or {}


def runtime_class(obj: Mapping[str, Any]) -> RuntimeClass:
    scheduling = obj.get("scheduling") or {}
    return RuntimeClass(
        obj["metadata"]["name"],
        str(obj.get("handler") or ""),
        dict(scheduling.get("nodeSelector") or {}),
        tuple(map(dict, scheduling.get("tolerations") or ())),
        dict((obj.get("overhead") or {}).get("podFixed") or {}),
    )


def priority_class(obj: Mapping[str, Any]) -> PriorityClass:
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    return PriorityClass(obj["metadata"]["name"], int(obj.get("value") or 0), policy, bool(obj.get("globalDefault")))


class VolumeClaim(NamedTuple):
    volume: str
    """Name of the PersistentVolume that it is bound to; "" if it is not bound."""
    narrow_access: str
    """`ReadWriteOnce` or `ReadWriteOncePod` if no other access mode lets several nodes use it, else ""."""


def volume_claim(obj: Mapping[str, Any]) -> VolumeClaim:
    """Once bound, a claim has the access modes of its volume, which may be more than it asks for."""
    spec = obj.get("spec") or {}
    modes = (obj.get("status") or {}).get("accessModes") or spec.get("accessModes") or ()
    narrow = next((mode for mode in _NARROW if mode in modes), "") if set(modes) <= set(_NARROW) else ""
    return VolumeClaim(str(spec.get("volumeName") or ""), narrow)


def volume_terms(volume: Mapping[str, Any]) -> str:
    """Node selector terms as JSON, of which a node must match one; "" if any node will do. Those of its node affinity, else
    terms made of its zone and region labels, which older volumes have (VolumeZone)."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    terms = required.get("nodeSelectorTerms")
    if not terms:
        topology = sorted((key, value) for key, value in labels(volume).items() if key in _TOPOLOGY_LABELS)
        if not topology:
            return ""
        terms = [{"matchExpressions": [{"key": k, "operator": "In", "values": v.split("__")} for k, v in topology]}]
    return intern(orjson.dumps(terms).decode())


class Autoscalers(Grouped[str, tuple[str, str, str], Autoscaler]):
    """Autoscalers by namespace and name, and by the namespace, kind and name of the workload that they scale."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """An autoscaler was added or changed. Raises TypeError, LookupError or AttributeError if it is malformed."""
        metadata, spec = obj["metadata"], obj["spec"]
        name, max_replicas, reference = metadata["name"], spec["maxReplicas"], spec["scaleTargetRef"]
        if not isinstance(max_replicas, int):
            raise TypeError("spec.maxReplicas: wanted a whole number")
        namespace, kind, of = metadata["namespace"], reference["kind"], reference["name"]
        in_apps = (reference.get("apiVersion") or "").startswith("apps/")
        if in_apps and kind in _SCALED_KINDS and len(of) <= MAX_NAME:  # the API server does not bound it
            self.put(full_name(obj), (namespace, kind, of), Autoscaler(name, max_replicas))
        else:
            self.gone(full_name(obj))

    def scaling(self, namespace: str, kind: str, name: str) -> Autoscaler | None:
        """The autoscaler of a workload with the highest maximum; ties are broken by name.

        None if there is none, or more than `_MAX_AUTOSCALERS`.
        """
        autoscalers = self.groups.get((namespace, kind, name), {}).values()
        if not autoscalers or len(autoscalers) > _MAX_AUTOSCALERS:
            return None
        return min(autoscalers, key=lambda autoscaler: (-autoscaler.max_replicas, autoscaler.name))


class _Scope(NamedTuple):
    operator: str
    values: frozenset[str]

    def covers(self, priority_class: str) -> bool:
        match self.operator:
            case "Exists":
                return priority_class != ""
            case "DoesNotExist":
                return priority_class == ""
            case "In":
                return priority_class in self.values
        return priority_class not in self.values


class Quotas(Grouped[str, str, tuple[_Scope, ...]]):
    """The scopes by namespace and name, and by namespace."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A quota was added or changed. Raises TypeError, LookupError or AttributeError if it is malformed."""
        spec = obj.get("spec") or {}
        expressions = [*((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]
        expressions += [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
        scopes = [
            _Scope(str(each["operator"]), frozenset(map(str, each.get("values") or ())))
            for each in expressions
            if each["scopeName"] == _SCOPE
        ]
        if scopes:
            self.put(full_name(obj), obj["metadata"]["namespace"], tuple(scopes))
        else:
            self.gone(full_name(obj))

    def covering(self, namespace: str, priority_class: str, *, but: str) -> str:
        """The name of a quota of the namespace that counts pods of one PriorityClass and none of another (`but`); "" is a pod
        without one. "" if there is no such quota."""
        for name, scopes in islice(self.groups.get(namespace, {}).items(), _MAX_QUOTAS):
            one, other = (all([scope.covers(each) for scope in scopes]) for each in (priority_class, but))
            if one and not other:
                return name.partition("/")[2]
        return ""


class LimitRanges(Grouped[str, str, LimitRange]):
    """The LimitRanges by namespace and name, and by namespace."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A LimitRange was added or changed. Raises TypeError or AttributeError if it is malformed."""
        limits = (obj.get("spec") or {}).get("limits") or ()
        if len(orjson.dumps(limits)) > _MAX_LIMIT_RANGE:
            self.gone(full_name(obj))
            return
        self.put(full_name(obj), obj["metadata"]["namespace"], _limit_range(obj["metadata"]["name"], limits))

    def of(self, namespace: str) -> Sequence[LimitRange]:
        """Those of a namespace by name. The API server applies them in no order."""
        found = self.groups.get(namespace, {})
        return [found[name] for name in sorted(found)[:_MAX_LIMIT_RANGES]]


def _limit_range(name: str, items: Sequence[Mapping[str, Any]]) -> LimitRange:
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    entries = []
    for item in items:
        kind, least, most = str(item.get("type")), dict(item.get("min") or {}), dict(item.get("max") or {})
        if kind not in _LIMITED_KINDS:
            continue
        entries.append(Limits(kind, least, most, dict(item.get("maxLimitRequestRatio") or {})))
        if kind == "Container":
            default = {**most, **(item.get("default") or {})}
            limits |= default
            requests |= {**least, **default, **(item.get("defaultRequest") or {})}
    return LimitRange(name, limits, requests, tuple(entries))
