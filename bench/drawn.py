"""Cases that are drawn by lot, the same for the same seed: small clusters, and pods that say much about where they go.

Who runs is to be a matter of where it may go, and not of who came first and took the room. So pods that three nodes or fewer can
take come first, those with fewest before the others; those that more can take, but which say something of other pods, when
these are where they go; then all others. And on nodes that are open to all there is more room than is asked for.
"""

import random
from collections.abc import Sequence
from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, pod
from tests.e2e.behaviour.case import HOST, ZONE, Case, Json
from tests.e2e.behaviour.made import EVERYTHING, LATE, REQUIRED, affinity, claim, port, spread, taken, using, volume

_NVIDIA = "nvidia.com/gpu"
_OTHERS = ("amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi")
"""A case has nodes of one more vendor, perhaps."""
_MODELS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4")
_USED = 0.5
"""Of the GPUs of nodes that are open to all, at most, that are asked for."""
_FEW = 3
"""Nodes that can take a pod which comes first."""
_OF_OTHERS = ("volume", "late volume", "near", "together", "together, apart", "port", "apart", "even", "model")
"""What leaves a pod some nodes only, or for a while."""


def drawn(seed: int) -> Case:
    """One case. Nothing is expected of it but that no more of its pods run without us."""
    lot = random.Random(seed)
    other = lot.choice(_OTHERS)
    nodes = [_node(lot, name, other) for name in "abcdefgh"[: lot.randint(5, 8)]]
    nodes.append(node("z"))
    there = [*_taken(lot, nodes), taken(lot.choice(nodes)["metadata"]["name"], 0, "cache")]
    stages: tuple[list[tuple[int, Json]], ...] = [], [], []
    left = {_NVIDIA: 0.0, other: 0.0}
    for each in nodes:
        if "taints" not in each["spec"]:
            left[_resource(each)] += _USED * _free(each, there)
    for number in range(lot.randint(12, 24)):
        what = lot.choice(_WHAT)
        resource = other if lot.random() < 0.2 else _NVIDIA
        made, more = _workload(lot, f"w{number}", what, nodes, resource)
        if _size(made) > left[resource]:
            continue
        left[resource] -= _size(made)
        able = _able(made, more, nodes, there)
        there += more
        stages[0 if able <= _FEW else 1 if what in _OF_OTHERS else 2].append((able, made))
    first, later, last = ([made for _, made in sorted(stage, key=lambda each: each[0])] for stage in stages)
    return Case(f"drawn {seed}", nodes, first or [pod("w")], [], there=there, later=later, last=last)


def _able(made: Json, more: Sequence[Json], nodes: Sequence[Json], there: Sequence[Json]) -> int:
    """How many nodes could take one of its pods before any other comes, as far as its peers let it."""
    spec = made["spec"].get("template", made)["spec"]
    (resource,) = {*spec["containers"][0]["resources"]["limits"]} - {"cpu"}
    wanted = {key: value.removeprefix("@") for key, value in spec.get("nodeSelector", {}).items()}
    labels = {f"@{each['metadata']['name']}": each["metadata"]["labels"] for each in nodes}
    for term in spec.get("affinity", {}).get("podAffinity", {}).get(REQUIRED, ()):
        for beside in there:
            if beside["metadata"]["name"] == term["labelSelector"]["matchLabels"]["app"]:
                wanted[term["topologyKey"]] = labels[beside["spec"]["nodeName"]][term["topologyKey"]]
    away = {
        (term["topologyKey"], labels[beside["spec"]["nodeName"]][term["topologyKey"]])
        for term in spec.get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, ())
        for beside in there
        if beside["metadata"]["name"] == term["labelSelector"]["matchLabels"]["app"]
    }
    for disk in more:
        if disk["kind"] == "PersistentVolume":
            [term] = disk["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"]
            wanted[term["key"]] = term["values"][0].removeprefix("@")
    return sum(
        wanted.items() <= each["metadata"]["labels"].items()
        and away.isdisjoint(each["metadata"]["labels"].items())
        and _resource(each) == resource
        and _asked({"spec": spec}) <= _free(each, there)
        and ("tolerations" in spec or all(taint["effect"] != "NoSchedule" for taint in each["spec"].get("taints", ())))
        for each in nodes
    )


def _free(found: Json, there: Sequence[Json]) -> int:
    at = f"@{found['metadata']['name']}"
    return _gpus(found) - sum(_asked(each) for each in there if each.get("spec", {}).get("nodeName") == at)


def _node(lot: random.Random, name: str, other: str) -> Json:
    taints = [
        taint
        for taint, odds in (
            ("team=other:PreferNoSchedule", 0.2),
            ("window=tonight:PreferNoSchedule", 0.1),
            ("team=other:NoSchedule", 0.1),
            ("ToBeDeletedByClusterAutoscaler=1:NoSchedule", 0.05),
            ("karpenter.sh/disrupted:NoSchedule", 0.05),
        )
        if lot.random() < odds
    ]
    gpus, others = lot.choice((2, 4, 8, 8)), lot.random() < 0.2
    return node(
        name,
        0 if others else gpus,
        lot.choice(_MODELS),
        cpu=lot.choice(("64", "96", "128")),
        zone=f"zone-{lot.choice('aab')}",
        taints=taints,
        cordoned=lot.random() < 0.1,
        replicas=4 if lot.random() < 0.05 else 1,
        resources={other: str(gpus)} if others else None,
    )


def _taken(lot: random.Random, nodes: Sequence[Json]) -> list[Json]:
    free = [each for each in nodes if lot.random() < 0.5]
    return [
        taken(each["metadata"]["name"], lot.randint(1, max(1, min(7, _gpus(each) - 1))), resource=_resource(each))
        for each in free
    ]


_WHAT = (
    *(
        "",
        "",
        "",
        "together",
        "together, apart",
        "apart",
        "rather apart",
        "near",
        "rather near",
        "spread",
        "even",
        "port",
    ),
    *("model", "everything", "volume", "late volume", "cpu", "host", "away", "gate"),
)


def _workload(
    lot: random.Random, name: str, what: str, nodes: Sequence[Json], resource: str
) -> tuple[Json, list[Json]]:
    """A workload, and what is to be there for it."""
    most = max(map(_gpus, nodes))
    gpus = min(most, lot.choice((1, 1, 1, 1, 2, 2, 4)))
    replicas = lot.randint(1, 4)
    spec: dict[str, Any] = {}
    there: list[Json] = []
    key = lot.choice((HOST, ZONE))
    cpu = lot.choice((None, None, "1", "4"))
    limits = {resource: str(gpus)} | ({"cpu": cpu} if cpu else {})
    container: dict[str, Any] = {"resources": {"limits": limits}}
    if what == "together":
        spec["affinity"] = affinity(name, key)
    elif what == "together, apart":
        spec["affinity"] = affinity(name, ZONE) | affinity(name, anti=True)
    elif what == "apart":
        spec["affinity"] = affinity(name, key, anti=True)
    elif what == "rather apart":
        spec["affinity"] = affinity(name, key, anti=True, weight=lot.choice((1, 50, 100)))
    elif what == "near":
        spec["affinity"] = affinity("cache", key)
    elif what == "rather near":
        spec["affinity"] = affinity("cache", key, weight=lot.choice((1, 50, 100)))
    elif what == "away":
        spec["affinity"] = affinity("cache", key, anti=True)
    elif what in ("spread", "even"):
        spec["topologySpreadConstraints"] = spread(name, key, hard=what == "even", skew=lot.choice((1, 1, 2)))
    elif what == "port":
        container |= port(7070)
    elif what == "model":
        labels = lot.choice(nodes)["metadata"]["labels"]
        spec["nodeSelector"] = {key: labels[key] for key in ("nvidia.com/gpu.product",) if key in labels}
    elif what == "host":
        spec["nodeSelector"] = {HOST: "@" + lot.choice(nodes)["metadata"]["name"]}
    elif what == "everything":
        spec["tolerations"] = EVERYTHING
    elif what == "gate":
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    elif what.endswith("volume"):
        late = what == "late volume"
        at = (
            "@" + lot.choice(nodes)["metadata"]["name"]
            if key == HOST
            else lot.choice(nodes)["metadata"]["labels"][ZONE]
        )
        there = [
            volume(f"{name}-disk", at, key, late=late),
            claim(f"{name}-data", "" if late else f"{name}-disk", late=late),
        ]
        if late:
            there.insert(0, LATE | {"metadata": {"name": f"@late-{name}"}})
            for each in there[1:]:
                each["spec"]["storageClassName"] = f"@late-{name}"
        if key == ZONE:  # else two of its pods on two nodes would both be bound, and one wait for the disk
            for each in there[-2:]:
                each["spec"]["accessModes"] = ["ReadWriteMany"]
        spec["volumes"] = using(f"{name}-data")
    if lot.random() < 0.2:
        spec["tolerations"] = EVERYTHING
    spec["container"] = container
    kind = lot.choice((pod, deployment, job))
    if kind is pod:
        return pod(name, gpus, **spec), there
    return kind(name, replicas, gpus, **spec), there


def _resource(found: Json) -> str:
    return next((name for name in _OTHERS if name in found["status"]["capacity"]), _NVIDIA)


def _gpus(found: Json) -> int:
    """Those that it has, and not the slots of those that are shared."""
    return int(found["metadata"]["labels"].get("nvidia.com/gpu.count") or found["status"]["capacity"][_resource(found)])


def _asked(found: Json) -> int:
    limits = found.get("spec", {}).get("containers", [{}])[0].get("resources", {}).get("limits", {})
    return sum(int(limits.get(name, 0)) for name in (_NVIDIA, *_OTHERS))


def _size(found: Json) -> int:
    if found["kind"] == "Pod":
        return _asked(found)
    spec = found["spec"]
    return int(spec.get("replicas") or spec.get("parallelism")) * _asked(spec["template"])
