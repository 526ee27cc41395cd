"""Checks the nodes with GPUs and the pods on them."""

from typing import Final

from webhook.cli.checks.result import All, Found, broken, opted_in, warn
from webhook.kube.pod import Pod
from webhook.kube.record import record_of
from webhook.policy.model import Policy
from webhook.text import listed, plural
from webhook.whatif.cluster.report import asks_for_gpus, gpu_nodes, healths, stays
from webhook.whatif.cluster.snapshot import Snapshot

_KEEP_AWAY: Final = ("NoSchedule", "NoExecute")


def health(snapshot: Snapshot, policy: Policy) -> All:
    """Nodes with GPUs are healthy."""
    health_of = healths(snapshot, policy, gpu_nodes(snapshot, policy))
    if not health_of:
        return [warn("no node has GPUs", "install a device plugin, or add nodes")]
    by_health: dict[str, list[str]] = {}
    for name, word in health_of.items():
        by_health.setdefault(word, []).append(name)
    healthy = len(by_health.pop("healthy", []))
    text = f"{healthy} of {plural(len(health_of), 'GPU node')} healthy"
    found = [Found("ok", text) if healthy else broken(text, "gpu-admission top")]
    for word, names in by_health.items():
        text = f"{word}: {listed(names)}"
        found.append(Found("ok", text) if word == "cordoned" else warn(text, f"kubectl describe node {names[0]}"))
    return found


def pods_without_gpus(snapshot: Snapshot, policy: Policy) -> All:
    """No pods without GPUs use the CPU of nodes with GPUs."""
    untainted = [
        name
        for name in gpu_nodes(snapshot, policy)
        if not any(taint.get("effect") in _KEEP_AWAY for taint in snapshot.nodes[name]["spec"].get("taints") or ())
    ]
    counts = {
        name: sum(_could_run_elsewhere(pod, policy) for pod in snapshot.pods_on.get(name, ())) for name in untainted
    }
    busy = sorted(name for name, count in counts.items() if count)
    if not busy:
        return "no pods without GPUs on GPU nodes but those of DaemonSets"
    text = f"{plural(sum(counts.values()), 'pod')} without GPUs on GPU nodes without a taint: {listed(busy)}"
    step = f"kubectl taint node {busy[0]} nvidia.com/gpu=present:NoSchedule; or placement.everyPod in the policy"
    return [warn(text, step)]


def _could_run_elsewhere(pod: Pod, policy: Policy) -> bool:
    """Whether a pod has no GPUs, and is not bound to its node as pods of DaemonSets and static pods are."""
    return not stays(pod) and not asks_for_gpus(pod, policy)


def time_slicing(snapshot: Snapshot, policy: Policy) -> All:
    """`nvidia.com/gpu` does not stand for whole GPUs on some nodes, and for shares on others."""
    row_of, columns = snapshot.state.nodes.row_of, snapshot.state.nodes.columns
    offered = columns.capacity.get("nvidia.com/gpu", columns.sharing * 0)
    offering = [name for name in gpu_nodes(snapshot, policy) if offered[row_of[name]]]
    shared = [name for name in offering if columns.sharing[row_of[name]] > 1]
    whole = [name for name in offering if name not in shared]
    if not shared or not whole:
        return "nvidia.com/gpu is the same on every node"
    text = (
        f"nvidia.com/gpu is a share of a GPU on {listed(shared)}, and a whole one on {listed(whole)}: pods cannot tell"
    )
    return [warn(text, "set renameByDefault: true in the device plugin's time-slicing configuration")]


def decisions(snapshot: Snapshot, policy: Policy) -> All:
    """The bound GPU pods of namespaces that opted in have a decision."""
    opted = opted_in(snapshot)
    pods = [
        pod
        for pods in snapshot.pods_on.values()
        for pod in pods
        if pod["metadata"]["namespace"] in opted and asks_for_gpus(pod, policy)
    ]
    without = [pod for pod in pods if not record_of(pod)]
    pods_text = f"{plural(len(pods), 'GPU pod')} in namespaces that opted in"
    if not without:
        return f"{pods_text}, all with a decision"
    step = "gpu-admission policy diff says what the rules would say of them"
    return [warn(f"{len(without)} of {pods_text} have no decision", step)]
