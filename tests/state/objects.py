"""Pods as the API server returns them, and states filled with them and with nodes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from tests.controlplane.objects import pod
from webhook.kube.pod import DECISION
from webhook.placement.placer import Placer
from webhook.state.objects import REQUIRED, ListKind
from webhook.state.state import ClusterState

GPU = "nvidia.com/gpu"
Object = dict[str, Any]


def stored(
    name: str,
    gpus: int = 1,
    *,
    on: str | None = None,
    owner: str | None = None,
    phase: str = "",
    limits: Mapping[str, str] | None = None,
    ranked: Iterable[str] = (),
    prefers: Iterable[str] | None = None,
    unschedulable: bool = False,
    nominated: str = "",
    **written: Any,
) -> Object:
    """A pod as the API server returns it: with a namespace, a uid, requests that equal its limits, and what became of it since.

    `on`: its node. `owner`: its ReplicaSet. `limits`: beside those of GPUs and 4 CPUs. `ranked`: the nodes in its decision
    annotation. `prefers`: the nodes in its own affinity, the ranked ones by default. `written`: arguments of `pod`.
    """
    asked = {"cpu": "4", "memory": "16Gi", **(limits or {}), **({GPU: str(gpus)} if gpus else {})}
    ranked = list(ranked)
    preferred = ranked if prefers is None else list(prefers)
    if preferred:
        written["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": _terms(preferred)}}
    if on:
        written["nodeName"] = on
    made = pod(name, 0, limits=asked, requests=asked, namespace="team-a", **written)
    made["metadata"]["uid"] = f"uid-{name}"
    if owner:
        reference = {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        made["metadata"] |= {"ownerReferences": [reference], "generateName": f"{owner}-"}
    if ranked:
        listed = [[n, 8, 0, 1.0] for n in ranked]
        made["metadata"]["annotations"] = {DECISION: orjson.dumps({"nodes": listed}).decode()}
    status: Object = {"phase": phase} if phase else {}
    if unschedulable or nominated:  # who preempts others could not be scheduled
        status["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    if nominated:
        status["nominatedNodeName"] = nominated
    return made | {"status": status}


def _terms(names: list[str]) -> list[Object]:
    """Preferred terms as the node affinity injector writes them."""
    field = {"key": "metadata.name", "operator": "In"}
    return [
        {"weight": 100 - i, "preference": {"matchFields": [{**field, "values": [name]}]}}
        for i, name in enumerate(names)
    ]


def admitted(made: Object) -> Object:
    """A pod as admission sees it: without a uid, and without a name if a controller creates it."""
    metadata = {k: v for k, v in made["metadata"].items() if k != "uid"}
    annotations = {k: v for k, v in metadata.pop("annotations", {}).items() if k != DECISION}
    if annotations:
        metadata["annotations"] = annotations
    if "generateName" in metadata:
        del metadata["name"]
    return {"metadata": metadata, "spec": made["spec"]}


def state(nodes: Iterable[Object] = (), pods: Iterable[Object] = (), now: float = 0.0, **settings: Any) -> ClusterState:
    """A state filled from fresh lists of nodes and pods."""
    made = ClusterState(**settings)
    lists: dict[str, Iterable[Object]] = {"nodes": nodes, "pods": pods}
    for kind in REQUIRED:
        made.replace(kind, lists.get(kind, ()), now)
    return made


def listed(kind: ListKind, *objects: Object) -> ClusterState:
    """A state without nodes and pods, but with these objects."""
    of = state()
    of.replace(kind, objects, 0)
    return of


def named(name: str, namespace: str = "team-a", **fields: Any) -> Object:
    """An object as far as its kind does not matter."""
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


@lru_cache(maxsize=8)
def placer(of: ClusterState) -> Placer:
    """The placer of this state; a process has one too."""
    return Placer(of)


def free(of: ClusterState, name: str, resource: str = GPU) -> int:
    """The free amount of a resource on a node."""
    return int(of.nodes.columns.free[resource][of.nodes.row_of[name]])


def facts(of: ClusterState) -> Object:
    """Everything that must not depend on the order of events, by name."""
    nodes, columns = of.nodes, of.nodes.columns
    rows = {name: row for name, row in nodes.row_of.items() if columns.alive[row]}
    named = {row: name for name, row in nodes.row_of.items()}
    offered = {r: free for r, free in columns.free.items() if columns.capacity[r].any()}  # a fresh state has no others
    return {
        "free": {n: _amounts(offered, row) for n, row in rows.items()},
        "roaming": {n: int(columns.roaming[row]) for n, row in rows.items()},
        "capacity": {n: _amounts(columns.capacity, row) for n, row in rows.items()},
        "installed": {n: _amounts(columns.installed, row) for n, row in rows.items()},
        "provided": nodes.provided,
        "elsewhere": Counter(
            [
                *of.nowhere.group_of.values(),
                *[columns.name[row] for row, _ in of.pods.values() if not columns.alive[row]],
            ]
        ),
        "labels": {n: dict(nodes.labels.get(row)) for n, row in rows.items()},
        "statuses": {n: nodes.statuses[columns.status[row]] for n, row in rows.items()},
        "model": {n: columns.models[columns.model[row]] for n, row in rows.items()},
        "order": [columns.name[row] for row in nodes.by_name() if columns.alive[row]],
        "count": nodes.count,
        "peers": {
            (o, named[r]): c for o, found in of.usage.peers.items() for r, c in found.items() if columns.alive[r]
        },
        "holdings": {
            (*key, named[row]): amount
            for key, rows in of.holdings.items()
            for row, amount in rows.items()
            if columns.alive[row]
        },
        "classes": of.priority_classes,
        "namespaces": of.namespaces,
    }


def _amounts(arrays: Mapping[str, Any], row: int) -> dict[str, int]:
    return {resource: int(array[row]) for resource, array in arrays.items() if array[row]}
