"""Cases that are drawn by lot, the same for the same seed: small clusters, and pods that say much about where they go.

Who runs is to be a matter of where it may go, and not of who came first and took the room. So pods that three nodes or fewer can
take come first, those with fewest before the others; those that more can take, but which say something of other pods, when
these are where they go; then all others. And on nodes that are open to all there is more room than is asked for.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, pod
from tests.e2e.behaviour.case import HOST, ZONE, Case, Json
from tests.e2e.behaviour.made import EVERYTHING, LATE, REQUIRED, affinity, claim, port, spread, taken, using, volume

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
    nodes = [_node(lot, name) for name in "abcdefgh"[: lot.randint(5, 8)]]
    nodes.append(node("z"))
    there = [*_taken(lot, nodes), taken(lot.choice(nodes)["metadata"]["name"], 0, "cache")]
    stages: tuple[list[tuple[int, Json]], ...] = [], [], []
    room = {each["metadata"]["name"]: _gpus(each) for each in nodes if "taints" not in each["spec"]}
    left = _USED * (sum(room.values()) - sum(_asked(each) for each in there if each["spec"]["nodeName"][1:] in room))
    for number in range(lot.randint(12, 24)):
        what = lot.choice(_WHAT)
        made, more = _workload(lot, f"w{number}", what, nodes)
        if _size(made) > left:
            continue
        left -= _size(made)
        able = _able(made, more, nodes, there)
        there += more
        stages[0 if able <= _FEW else 1 if what in _OF_OTHERS else 2].append((able, made))
    first, later, last = ([made for _, made in sorted(stage, key=lambda each: each[0])] for stage in stages)
    return Case(f"drawn {seed}", nodes, first or [pod("w")], [], there=there, later=later, last=last)


def _able(made: Json, more: Sequence[Json], nodes: Sequence[Json], there: Sequence[Json]) -> int:
    """How many nodes could take one of its pods before any other comes, as far as its peers let it."""
    spec = made["spec"].get("template", made)["spec"]
    wanted = {key: value.removeprefix("@") for key, value in spec.get("nodeSelector", {}).items()}
    for term in spec.get("affinity", {}).get("podAffinity", {}).get(REQUIRED, ()):
        for beside in there:
            if beside["metadata"]["name"] == term["labelSelector"]["matchLabels"]["app"]:
                wanted[term["topologyKey"]] = _labels(nodes, beside["spec"]["nodeName"][1:])[term["topologyKey"]]
    for disk in more:
        if disk["kind"] == "PersistentVolume":
            [term] = disk["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"]
            wanted[term["key"]] = term["values"][0].removeprefix("@")
    return sum(
        wanted.items() <= each["metadata"]["labels"].items()
        and _asked({"spec": spec}) <= _free(each, there)
        and ("tolerations" in spec or all(taint["effect"] != "NoSchedule" for taint in each["spec"].get("taints", ())))
        for each in nodes
    )


def _labels(nodes: Sequence[Json], name: str) -> dict[str, str]:
    found: dict[str, str] = next(each["metadata"]["labels"] for each in nodes if each["metadata"]["name"] == name)
    return found


def _free(found: Json, there: Sequence[Json]) -> int:
    at = f"@{found['metadata']['name']}"
    return _gpus(found) - sum(_asked(each) for each in there if each.get("spec", {}).get("nodeName") == at)


def _node(lot: random.Random, name: str) -> Json:
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
    return node(
        name,
        lot.choice((2, 4, 8, 8)),
        lot.choice(_MODELS),
        cpu=lot.choice(("64", "96", "128")),
        zone=f"zone-{lot.choice('aab')}",
        taints=taints,
        cordoned=lot.random() < 0.1,
        replicas=4 if lot.random() < 0.05 else 1,
    )


def _taken(lot: random.Random, nodes: Sequence[Json]) -> list[Json]:
    free = [each for each in nodes if lot.random() < 0.5]
    return [taken(each["metadata"]["name"], lot.randint(1, max(1, min(7, _gpus(each) - 1)))) for each in free]


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


def _workload(lot: random.Random, name: str, what: str, nodes: Sequence[Json]) -> tuple[Json, list[Json]]:
    """A workload, and what is to be there for it."""
    most = max(map(_gpus, nodes))
    gpus = min(most, lot.choice((1, 1, 1, 1, 2, 2, 4)))
    replicas = lot.randint(1, 4)
    spec: dict[str, Any] = {}
    there: list[Json] = []
    key = lot.choice((HOST, ZONE))
    cpu = lot.choice((None, None, "1", "4"))
    limits = {"nvidia.com/gpu": str(gpus)} | ({"cpu": cpu} if cpu else {})
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
        spec["nodeSelector"] = {
            "nvidia.com/gpu.product": lot.choice(nodes)["metadata"]["labels"]["nvidia.com/gpu.product"]
        }
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


def _gpus(found: Json) -> int:
    return int(found["metadata"]["labels"].get("nvidia.com/gpu.count", "0"))


def _asked(found: Json) -> int:
    resources = found.get("spec", {}).get("containers", [{}])[0].get("resources", {})
    return int(resources.get("limits", {}).get("nvidia.com/gpu", "0"))


def _size(found: Json) -> int:
    if found["kind"] == "Pod":
        return _asked(found)
    spec = found["spec"]
    return int(spec.get("replicas") or spec.get("parallelism")) * _asked(spec["template"])
