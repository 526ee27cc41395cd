"""Pods as the API server shows them to a webhook, in every form that the API allows: for hypothesis."""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.builders import GPU

MIG = "nvidia.com/mig-1g.10gb"
NODES = ("gpu-a1", "gpu-a2", "gpu-b1", "gone")
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Object = dict[str, Any]


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    """A map with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


_ABSENT = object()


def rarely(**fields: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    """Fields that one pod in ten has."""
    return {
        key: st.integers(0, 9).flatmap(lambda n, s=field: s if n == 9 else st.just(_ABSENT))
        for key, field in fields.items()
    }


def _present(found: Object) -> Object:
    return {key: value for key, value in found.items() if value is not _ABSENT}


def _word(*words: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(words)


_OTHER = st.fixed_dictionaries(
    rarely(
        **{
            MIG: _word("1", "2"),
            "amd.com/gpu": _word("1", "0"),
            "nvidia.com/gpumem": _word("4000"),
            GPU: _word("1", "0", "9", "0.5", "x"),
        }
    ),
    optional={"cpu": _word("1", "500m", 2, "200"), "memory": _word("1Gi", "64Mi")},
).map(_present)
_MAYBE = st.none() | _OTHER
_GPUS = _word("1", "2", "4", "8", 1, "1000m").flatmap(
    lambda n: _word({"limits": {GPU: n}}, {"requests": {GPU: n}}, {"limits": {GPU: n}, "requests": {GPU: n}})
)


def _with(resources: Object, other: Object) -> Object:
    """GPUs, and something besides."""
    return other | {part: {**(other.get(part) or {}), **gpus} for part, gpus in resources.items()}


_RESOURCES = some(limits=_MAYBE, requests=_MAYBE, claims=st.just([]))
_GPU_RESOURCES = st.builds(_with, _GPUS, _RESOURCES)
ENV = st.lists(
    st.fixed_dictionaries(
        {"name": _word("A", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")},
        optional={"value": _word("", "0", "void")},
    ),
    max_size=2,
)


def _containers(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries(
        {"name": _word("main", "side", "x" * 63), "image": _word("app", "cuda")},
        optional={
            "resources": st.none() | _RESOURCES | _GPU_RESOURCES,
            "env": st.none() | ENV,
            "envFrom": st.just([{"configMapRef": {"name": "c"}}]),
            "securityContext": some(privileged=st.booleans(), runAsUser=st.integers(0, 9)),
            "somethingNew": st.just({"deep": [1, None]}),
            **fields,
        },
    )


_TOLERATIONS = st.lists(
    some(
        key=_word(GPU, "amd.com/gpu", "", "team"),
        operator=_word("Exists", "Equal", "", "Gt"),
        value=_word("", "present", "5"),
        effect=_word("NoSchedule", "NoExecute", "", "PreferNoSchedule"),
        tolerationSeconds=_word(0, 300),
        somethingNew=st.just(1),
    ),
    max_size=3,
)
_LABEL_EXPRESSIONS = st.lists(
    st.builds(
        lambda key, test: {"key": key, **test},
        _word(ZONE, HOST, "missing"),
        _word(
            {"operator": "In", "values": ["zone-a", "gpu-a1"]},
            {"operator": "NotIn", "values": ["zone-b"]},
            {"operator": "Exists"},
            {"operator": "DoesNotExist", "values": None},
            {"operator": "Gt", "values": ["1"]},
        ),
    ),
    max_size=2,
)
_NAMES = st.lists(
    st.builds(
        lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
        _word("In", "NotIn"),
        _word(*NODES),
    ),
    max_size=2,
)
TERMS = some(matchExpressions=st.none() | _LABEL_EXPRESSIONS, matchFields=st.none() | _NAMES)
_POD_TERMS = st.lists(
    st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": some(topologyKey=_word(HOST, ZONE))}),
    max_size=2,
)
AFFINITY = some(
    nodeAffinity=st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            PREFERRED: st.none()
            | st.lists(st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": TERMS}), max_size=3),
            REQUIRED: st.none() | st.fixed_dictionaries({"nodeSelectorTerms": st.lists(TERMS, min_size=1, max_size=3)}),
        },
    ),
    podAntiAffinity=st.none() | st.fixed_dictionaries({}, optional={PREFERRED: st.none() | _POD_TERMS}),
    somethingNew=st.just([]),
)
_SPREAD = st.lists(
    st.fixed_dictionaries(
        {
            "topologyKey": _word(HOST, ZONE, "rack"),
            "maxSkew": st.integers(1, 5),
            "whenUnsatisfiable": _word("ScheduleAnyway", "DoNotSchedule"),
        },
        optional={"labelSelector": st.none() | st.just({"matchLabels": {"app": "web"}})},
    ),
    max_size=2,
    unique_by=lambda constraint: (constraint["topologyKey"], constraint["whenUnsatisfiable"]),
)
_FIRST = st.builds(lambda main, resources: main | {"resources": resources}, _containers(), _GPU_RESOURCES)
_SPECS = st.fixed_dictionaries(
    {
        "containers": st.builds(
            lambda first, others: [first, *others], _FIRST | _containers(), st.lists(_containers(), max_size=2)
        ),
        **rarely(
            schedulingGates=st.just([{"name": "gate"}]),
            nodeName=_word("", "gpu-a1"),
            schedulerName=_word("volcano", ""),
            resources=some(limits=st.just({"cpu": "4"}), requests=st.just({"memory": "1Gi"})),
            resourceClaims=st.just([{"name": "claim", "resourceClaimName": "c"}]),
            overhead=st.just({"cpu": "100m"}),
            volumes=st.just([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            nodeSelector=st.none() | st.dictionaries(_word(ZONE, HOST), _word("zone-a", "gpu-a1"), max_size=1),
        ),
    },
    optional={
        "initContainers": st.none() | st.lists(_containers(restartPolicy=_word("Always", None)), max_size=2),
        "tolerations": st.none() | _TOLERATIONS,
        "affinity": st.none() | AFFINITY,
        "topologySpreadConstraints": st.none() | _SPREAD,
        "priorityClassName": _word("", "everyday", "mine", "gpu-inference"),
        "priority": _word(0, None, 7),
        "preemptionPolicy": _word("PreemptLowerPriority", "Never"),
        "somethingNew": st.just({"a": [None, {"b": 1}]}),
    },
).map(_present)
_LABELS = st.dictionaries(
    _word("app", "app", "workload-type", "workload-type", "pod-template-hash", "kueue.x-k8s.io/queue-name", "a/b~c"),
    _word("web", "inference", "training", ""),
    max_size=3,
)
_OWNERS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": _word("ReplicaSet", "ReplicaSet", "Job", "Job", "DaemonSet", "Node", "App"),
            "name": st.just("o"),
            "uid": st.just("uid-o"),
        },
        optional={"controller": st.booleans(), "apiVersion": st.just("apps/v1")},
    ),
    max_size=2,
)
_RECORDS = _word(
    "",
    "not JSON",
    "[]",
    '{"nodes":[["gpu-a1",8,0,1.0]]}',
    '{"nodes":[["gpu-a1",1e300,0,1.0]],"strategy":"evil"}',
    '{"nodes":[["gone",8,0,1.0]],"of":-1}',
    '{"nodes":[[{},[],{},[]]]}',
)
_METADATA = st.fixed_dictionaries(
    {"namespace": st.just("team-a")},
    optional={
        "name": _word("a", 'b"\n'),
        "generateName": _word("web-", ""),
        "labels": st.none() | _LABELS,
        "annotations": st.none()
        | some(
            **{
                "gpu-admission.io/decision": _RECORDS,
                "kubernetes.io/config.mirror": st.just("x"),
                "gpu-admission.io/preferred-nodes": _word("gpu-b1, gpu-a2", "gone", ",%b"),
                "gpu-admission.io/gpu-model": _word("a100", "%s\n"),
                "note/~": st.just("n"),
            }
        ),
        "ownerReferences": st.none() | _OWNERS,
        "creationTimestamp": st.none(),
        "somethingNew": st.just(True),
    },
)


def pods() -> st.SearchStrategy[Object]:
    """Any pod that the API server would send, and some that it would refuse after us."""
    return st.builds(
        lambda metadata, spec: {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        _METADATA,
        _SPECS,
    )


WRONG = _word(None, True, 0, -1, 1.5, 2**63, "", "x", [], {}, [None], [[]], {"a": None}, [{}], ["x"])


def damaged(obj: Object, wrong: Any, random: Random) -> Object:
    """A copy with a wrong value in some place."""
    found = copy.deepcopy(obj)
    *parents, last = random.choice(list(_paths(found)))
    here: Any = found
    for part in parents:
        here = here[part]
    here[last] = wrong
    return found


def _paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*here, key)
        yield from _paths(item, (*here, key))
