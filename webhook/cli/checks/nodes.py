"""Checks the nodes with GPUs and the pods on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.cli.checks.result import Result, opted_in
from webhook.cli.cluster.report import gpu_nodes, gpus_of, healths
from webhook.cli.cluster.snapshot import Object, Snapshot
from webhook.kube.pod import MIRROR, Pod, annotations_of, labels_of, owner
from webhook.kube.record import record_of
from webhook.policy.model import Policy
from webhook.text import listed, plural

_KEEP_AWAY: Final = ("NoSchedule", "NoExecute")


def health(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Nodes with GPUs are healthy."""
    health_of = healths(snapshot, policy, gpu_nodes(snapshot, policy))
    if not health_of:
        yield Result("nodes", "warn", "no node has GPUs", "install a device plugin, or add nodes")
        return
    by_health: dict[str, list[str]] = {}
    for name, word in health_of.items():
        by_health.setdefault(word, []).append(name)
    healthy = len(by_health.pop("healthy", []))
    text = f"{healthy} of {plural(len(health_of), 'GPU node')} healthy"
    yield Result("nodes", "ok" if healthy else "broken", text, "" if healthy else "gpu-admission nodes")
    for word, names in by_health.items():
        if word == "cordoned":
            yield Result("nodes", "ok", f"{word}: {listed(names)}")
        else:
            yield Result("nodes", "warn", f"{word}: {listed(names)}", f"kubectl describe node {names[0]}")


def pods_without_gpus(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """No pods without GPUs use the CPU of nodes with GPUs."""
    untainted = [
        name
        for name in gpu_nodes(snapshot, policy)
        if not any(taint.get("effect") in _KEEP_AWAY for taint in snapshot.nodes[name]["spec"].get("taints") or ())
    ]
    counts = {
        name: sum(_could_run_elsewhere(pod, policy) for pod in snapshot.pods_on.get(name, ())) for name in untainted
    }
    if busy := sorted(name for name, count in counts.items() if count):
        text = f"{plural(sum(counts.values()), 'pod')} without GPUs on GPU nodes without a taint: {listed(busy)}"
        step = f"kubectl taint node {busy[0]} nvidia.com/gpu=present:NoSchedule; or placement.everyPod in the policy"
        yield Result("taints", "warn", text, step)
    else:
        yield Result("taints", "ok", "no pods without GPUs on GPU nodes but those of DaemonSets")


def _could_run_elsewhere(pod: Pod, policy: Policy) -> bool:
    """Whether a pod has no GPUs, and is not bound to its node as pods of DaemonSets and static pods are."""
    controller = owner(pod)
    node_bound = (controller is not None and controller.kind in ("DaemonSet", "Node")) or MIRROR in annotations_of(pod)
    return not node_bound and not gpus_of(pod, policy)


def time_slicing(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """`nvidia.com/gpu` does not stand for whole GPUs on some nodes, and for shares on others."""
    nodes = [snapshot.nodes[name] for name in gpu_nodes(snapshot, policy)]
    offering = {node["metadata"]["name"]: _shares_gpus(node) for node in nodes if _offers_nvidia_gpus(node)}
    shared = [name for name, shares in offering.items() if shares]
    whole = [name for name, shares in offering.items() if not shares]
    if shared and whole:
        text = f"nvidia.com/gpu is a share of a GPU on {listed(shared)}, and a whole one on {listed(whole)}: pods cannot tell"
        step = "set renameByDefault: true in the device plugin's time-slicing configuration"
        yield Result("timeSlicing", "warn", text, step)
    else:
        yield Result("timeSlicing", "ok", "nvidia.com/gpu is the same on every node")


def _offers_nvidia_gpus(node: Object) -> bool:
    allocatable: Mapping[str, str] = node["status"].get("allocatable") or {}
    return allocatable.get("nvidia.com/gpu", "0") != "0"


def _shares_gpus(node: Object) -> bool:
    return labels_of(node).get("nvidia.com/gpu.replicas", "1") not in ("0", "1")


def decisions(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """The bound GPU pods of namespaces that opted in have a decision."""
    opted = opted_in(snapshot)
    pods = [
        pod
        for pods in snapshot.pods_on.values()
        for pod in pods
        if pod["metadata"]["namespace"] in opted and gpus_of(pod, policy)
    ]
    without = [pod for pod in pods if not record_of(pod)]
    pods_text = f"{plural(len(pods), 'GPU pod')} in namespaces that opted in"
    if without:
        text = f"{len(without)} of {pods_text} have no decision"
        yield Result("decisions", "warn", text, "gpu-admission audit says what the rules would say of them")
    else:
        yield Result("decisions", "ok", f"{pods_text}, all with a decision")
