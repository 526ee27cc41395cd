"""What is known of each node: the document of `gpu-admission nodes -o json`, described in docs/cli.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from types import NoneType
from typing import Any, Final

import numpy as np
import orjson

from webhook.cli.cluster.devices import Devices
from webhook.cli.cluster.measured import Figures
from webhook.cli.cluster.snapshot import Object, Snapshot
from webhook.cluster.pods import counted_demand
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.pod import DECISION, Pod, annotations_of, owner
from webhook.placement.constraints import compiled
from webhook.placement.filters import Filter
from webhook.policy.model import DEFAULT_PROFILE, Policy

POOL_LABELS: Final = (
    *(
        "node-pool",
        "nodepool",
        "cloud.google.com/gke-nodepool",
        "eks.amazonaws.com/nodegroup",
        "alpha.eksctl.io/nodegroup-name",
    ),
    *(
        "karpenter.sh/nodepool",
        "kubernetes.azure.com/agentpool",
        "agentpool",
        "doks.digitalocean.com/node-pool",
        "pool",
    ),
)
_EVERYTHING: Final = {"tolerations": [{"operator": "Exists"}]}
PRESENT: Final = ("nvidia.com/gpu.present", "nvidia.com/gpu.count", *MODEL_LABELS)
"""Labels that say that a node has GPUs, whatever its device plugin offers."""


def report(snapshot: Snapshot, policy: Policy, names: list[str]) -> list[dict[str, Any]]:
    """Of the nodes of these names, in their order."""
    health = healths(snapshot, policy, names)
    state = snapshot.state
    state.view(snapshot.taken)  # ends the reservations that have expired
    columns = state.nodes.columns
    figures = Figures(snapshot.measured, policy.file.gpu_metrics) if snapshot.measured else None
    resources = [name for name in columns.capacity if policy.gpus.kind(name) is not None]
    devices = Devices(snapshot)
    result = []
    for name in names:
        node, row = snapshot.nodes[name], state.nodes.row_of[name]
        offered = {resource for resource in resources if columns.capacity[resource][row]}
        pods = list(_pods(snapshot.pods_on.get(name, ()), policy, devices, offered))
        gpus = {}
        for resource in resources:
            total = int(columns.capacity[resource][row])
            allocated = sum(pod["gpus"].get(resource, 0) for pod in pods)
            if total or allocated:
                free = int(columns.free[resource][row])
                reserved = total - allocated - free
                gpus[resource] = {"total": total, "allocated": allocated, "promised": reserved, "free": max(0, free)}
        gpus |= devices.on(name)
        result.append(
            {
                "name": name,
                "pool": pool_of(node),
                "model": model_of(node),
                "ready": is_ready(node),
                "health": health[name],
                "taints": [taint_text(taint) for taint in node["spec"].get("taints") or ()],
                "gpus": gpus,
                "pods": pods,
                **(figures.of(name, gpus.values(), float(columns.sharing[row])) if figures else {}),
            }
        )
    return result


def pools(nodes: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Sums of each pool ("pool"), and of all (None) where there are several: "gpus" by resource with "nodes", and what is known
    of "idle", "utilisation", "memory", "temperature" and "sick"."""
    names = sorted({node["pool"] for node in nodes})
    for pool in [*names, None] if len(names) > 1 else names:
        members = [node for node in nodes if pool is None or node["pool"] == pool]
        gpus = {}
        for resource in sorted({resource for node in members for resource in node["gpus"]}):
            of = [node["gpus"][resource] for node in members if resource in node["gpus"]]
            sums = {key: sum(each[key] for each in of) for key in ("total", "allocated", "promised", "free")}
            gpus[resource] = {"nodes": len(of), **sums}
        yield {"pool": pool, "gpus": gpus, **_together(members)}


def _together(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is known by GPU metrics of several nodes."""
    known = {key: [node[key] for node in nodes if key in node] for key in ("idle", "memory", "temperature", "sick")}
    result = {key: sum(known[key]) for key in ("idle", "sick") if known[key]}
    if measured := sum(node.get("measured", 0) for node in nodes):
        total = sum(node["utilisation"] * node["measured"] for node in nodes if "measured" in node)
        result["utilisation"] = round(total / measured)
    if known["temperature"]:
        result["temperature"] = max(known["temperature"])
    memory = {key: sum(each[key] for each in known["memory"]) for key in ("used", "total")}
    return result | ({"memory": memory} if known["memory"] else {})


def gpu_nodes(snapshot: Snapshot, policy: Policy) -> list[str]:
    """The names of the nodes that offer GPUs, by a device plugin or by DRA, or have some by their labels, sorted."""
    offering = _offering(snapshot, policy)
    return sorted([name for name, node in snapshot.nodes.items() if name in offering or has_gpu_labels(node)])


def healths(snapshot: Snapshot, policy: Policy, names: list[str]) -> dict[str, str]:
    """The health of each of these nodes, as a constant word: the worst that applies."""
    unhealthy, offering = _unhealthy(snapshot, policy), _offering(snapshot, policy)
    return {name: _health(snapshot.nodes[name], offers=name in offering, unhealthy=name in unhealthy) for name in names}


def _offering(snapshot: Snapshot, policy: Policy) -> set[str]:
    """The nodes that offer GPUs, by a device plugin or by DRA."""
    nodes = snapshot.state.nodes
    offered = [array for name, array in nodes.columns.capacity.items() if policy.gpus.kind(name) is not None]
    rows = np.flatnonzero(np.any(offered, axis=0)).tolist() if offered else []
    return {nodes.columns.name[row] for row in rows} | nodes.dra


def _health(node: Object, *, offers: bool, unhealthy: bool) -> str:
    if not is_ready(node):
        return "notReady"
    if unhealthy:
        return "unhealthy"
    if node["spec"].get("unschedulable"):
        return "cordoned"
    if has_gpu_labels(node) and not offers:
        return "offersNoGpus"
    return "healthy"


def has_gpu_labels(node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    return any(labels.get(key, "") not in ("", "false", "0") for key in PRESENT)


def is_ready(node: Object) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in node["status"].get("conditions") or ())


def pool_of(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    return str(next((labels[key] for key in POOL_LABELS if key in labels), ""))


def model_of(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    return str(next((labels[key] for key in MODEL_LABELS if key in labels), ""))


def taint_text(taint: Mapping[str, Any]) -> str:
    """As kubectl takes it: key=value:Effect."""
    value = taint.get("value")
    return f"{taint.get('key', '')}{f'={value}' if value else ''}:{taint.get('effect', '')}"


def record_of(pod: Pod) -> dict[str, Any]:
    """The decision on it; {} where there is none, or what stands there is none."""
    text = annotations_of(pod).get(DECISION)
    if text is None:
        return {}
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return record if _is_record(record) else {}


def _is_record(record: Any) -> bool:
    """Whether it has the form of a decision: anybody can write an annotation."""
    if not isinstance(record, dict) or not isinstance(record.get("units", {}), dict):
        return False
    number = (int, float)
    entries = [(record.get("nodes", []), (str, int, int, number)), (record.get("rejected", []), (str, int))]
    return _is_short(record.get("by", [])) and all(
        isinstance(listed, list)
        and all(isinstance(e, list) and len(e) >= len(kinds) and all(map(isinstance, e, kinds)) for e in listed)
        and all(_is_short(e[len(kinds) :]) for e in listed)
        for listed, kinds in entries
    )


def _is_short(added: Any) -> bool:
    """What GPU metrics add to a record: two numbers to a node, and `by`, the source."""
    return isinstance(added, list) and len(added) <= 3 and all(isinstance(e, (str, int, NoneType)) for e in added)


def gpus_of(pod: Pod, policy: Policy) -> dict[str, int]:
    return {name: amount for name, amount in counted_demand(pod).requests if policy.gpus.kind(name) is not None}


def _pods(pods: Any, policy: Policy, devices: Devices, offered: Set[str]) -> Iterator[dict[str, Any]]:
    """Those that have GPUs. `offered`: by a device plugin; what else a pod with a claim asks for, the scheduler claims for it
    (KEP-5004)."""
    for pod in pods:
        metadata, gpus = pod["metadata"], gpus_of(pod, policy)
        if claimed := devices.of(pod):
            gpus = {name: count for name, count in gpus.items() if name in offered} | claimed
        if not gpus:
            continue
        said = record_of(pod).get("class")
        workload = said if isinstance(said, str) else policy.classify(pod, owner(pod), metadata["namespace"]).name
        yield {"namespace": metadata["namespace"], "name": metadata["name"], "class": workload, "gpus": gpus}


def _unhealthy(snapshot: Snapshot, policy: Policy) -> frozenset[str]:
    """The nodes that the default profile calls unhealthy."""
    constraints = compiled(_EVERYTHING)
    assert constraints is not None
    nodes = snapshot.state.nodes
    checks = Filter(constraints, policy.profile(DEFAULT_PROFILE)[1].placement.health).checks(
        nodes, slice(0, nodes.columns.rows)
    )
    sick = np.any([~passes for reason, passes in checks if reason == "GPUs are not healthy"], axis=0)
    return frozenset([nodes.columns.name[row] for row in np.flatnonzero(sick)])
