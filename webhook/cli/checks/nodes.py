"""The nodes with GPUs, who else runs there, and the pods that nobody decided about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from webhook.admission.context import PROFILE_LABEL
from webhook.cli.checks.result import Result
from webhook.cli.cluster.report import gpu_nodes, gpus_of, healths, record_of
from webhook.cli.cluster.snapshot import Object, Snapshot
from webhook.kube.pod import MIRROR, annotations_of, owner
from webhook.policy.model import Policy
from webhook.text import listed, plural

_HARD: Final = ("NoSchedule", "NoExecute")


def health(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Nodes that have GPUs are up, and offer them."""
    nodes = healths(snapshot, policy, gpu_nodes(snapshot, policy))
    if not nodes:
        yield Result("nodes", "warn", "no node has GPUs", "install a device plugin, or add nodes")
        return
    sick: dict[str, list[str]] = {}
    for name, word in nodes.items():
        sick.setdefault(word, []).append(name)
    healthy = len(sick.pop("healthy", []))
    text = f"{healthy} of {plural(len(nodes), 'GPU node')} healthy"
    yield Result("nodes", "ok" if healthy else "broken", text, "" if healthy else "gpu-admission nodes")
    for word, names in sick.items():
        if word == "cordoned":
            yield Result("nodes", "ok", f"{word}: {listed(names)}")
        else:
            yield Result("nodes", "warn", f"{word}: {listed(names)}", f"kubectl describe node {names[0]}")


def guests(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """No pods without GPUs take the CPU of nodes with GPUs."""
    open_to_all = [
        name
        for name in gpu_nodes(snapshot, policy)
        if not any(taint.get("effect") in _HARD for taint in snapshot.nodes[name]["spec"].get("taints") or ())
    ]
    counts = {name: sum(_is_guest(pod, policy) for pod in snapshot.pods_on.get(name, ())) for name in open_to_all}
    if busy := sorted(name for name, count in counts.items() if count):
        text = f"{plural(sum(counts.values()), 'pod')} without GPUs on GPU nodes without a taint: {listed(busy)}"
        step = f"kubectl taint node {busy[0]} nvidia.com/gpu=present:NoSchedule; or placement.everyPod in the policy"
        yield Result("taints", "warn", text, step)
    else:
        yield Result("taints", "ok", "no pods without GPUs on GPU nodes but those of DaemonSets")


def _is_guest(pod: Any, policy: Policy) -> bool:
    controller = owner(pod)
    kept = (controller is not None and controller.kind in ("DaemonSet", "Node")) or MIRROR in annotations_of(pod)
    return not kept and not gpus_of(pod, policy)


def time_slicing(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """One resource name is not a whole GPU here and a share of one there."""
    plain = [name for name in gpu_nodes(snapshot, policy) if "nvidia.com/gpu" in _offered(snapshot.nodes[name])]
    shared = [name for name in plain if _shares(snapshot.nodes[name])]
    whole = [name for name in plain if name not in shared]
    if shared and whole:
        text = f"nvidia.com/gpu is a share of a GPU on {listed(shared)}, and a whole one on {listed(whole)}: pods cannot tell"
        step = "set renameByDefault: true in the device plugin's time-slicing configuration"
        yield Result("timeSlicing", "warn", text, step)
    else:
        yield Result("timeSlicing", "ok", "nvidia.com/gpu is the same on every node")


def _offered(node: Object) -> dict[str, str]:
    return {name: amount for name, amount in (node["status"].get("allocatable") or {}).items() if amount != "0"}


def _shares(node: Object) -> bool:
    return (node["metadata"].get("labels") or {}).get("nvidia.com/gpu.replicas", "1") not in ("0", "1")


def decisions(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Running GPU pods of namespaces that opted in have a decision."""
    opted = {
        n["metadata"]["name"] for n in snapshot.of("Namespace") if PROFILE_LABEL in (n["metadata"].get("labels") or {})
    }
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
