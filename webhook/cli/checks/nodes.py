"""Checks the nodes with GPUs and the pods with GPUs on them."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from webhook.cli.checks.result import All, broken, ok, opted_in, warn
from webhook.kube.gpus import DIVIDED, vendor
from webhook.kube.pod import is_zero
from webhook.kube.record import record_of
from webhook.kube.taints import KEEPS_AWAY
from webhook.policy.model import Policy
from webhook.text import listed, plural
from webhook.vendors.catalogue import taints
from webhook.whatif.cluster.report import asks_for_gpus, gpu_nodes, healths, stays
from webhook.whatif.cluster.snapshot import Snapshot


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
    found = [ok(text) if healthy else broken(text, command=("gpu-admission", "top"))]
    for word, names in by_health.items():
        text, command = f"{word}: {listed(names)}", ("kubectl", "describe", "node", names[0])
        if word == "offersNoGpus" and (others := _others(snapshot, policy, names)):
            text = f"{text}; they offer {listed(others)}, which the policy does not name"
            found.append(warn(text, "if these are GPUs, add them to `gpus`", snapshot.release.edit_policy))
        else:
            found.append(ok(text) if word == "cordoned" else warn(text, command=command))
    return found


def _others(snapshot: Snapshot, policy: Policy, nodes: Iterable[str]) -> list[str]:
    """The resources of vendors of GPUs that these nodes offer and the policy does not name."""
    vendors = {vendor(gpu.name) for gpu in policy.gpus.names}
    offered = [snapshot.nodes[name]["status"].get("allocatable") or {} for name in nodes]
    found = {name for each in offered for name, amount in each.items() if not is_zero(amount)}
    return sorted([name for name in found if vendor(name) in vendors and not policy.gpus.knows(name)])


def pods_without_gpus(snapshot: Snapshot, policy: Policy) -> All:
    """No pods without GPUs use the CPU of nodes with GPUs."""
    untainted = [
        name
        for name in gpu_nodes(snapshot, policy)
        if not any(taint.get("effect") in KEEPS_AWAY for taint in snapshot.nodes[name]["spec"].get("taints") or ())
    ]
    counts = {
        name: sum(not stays(pod) and not asks_for_gpus(pod, policy) for pod in snapshot.pods_on.get(name, ()))
        for name in untainted
    }
    busy = sorted(name for name, count in counts.items() if count)
    if not busy:
        return "no pods without GPUs on GPU nodes but those of DaemonSets"
    text = f"{plural(sum(counts.values()), 'pod')} without GPUs on GPU nodes without a taint: {listed(busy)}"
    taint = next((each.key for each in taints("gpu")), "gpu")
    step = f"kubectl taint node {busy[0]} {taint}=present:NoSchedule; or placement.everyPod in the policy"
    return [warn(text, step)]


def same_names(snapshot: Snapshot, policy: Policy) -> All:
    """No resource stands for whole GPUs on some nodes, and for slices or shares on others."""
    nodes, found = snapshot.state.nodes, []
    for resource in [name for name in DIVIDED if name in nodes.columns.capacity]:
        offered, by_kind = nodes.columns.capacity[resource], dict[str, list[str]]()
        for name in gpu_nodes(snapshot, policy):
            if offered[nodes.row_of[name]]:
                by_kind.setdefault(nodes.one_of(name, resource).kind, []).append(name)
        if len(by_kind) > 1:
            each = " and ".join([f"{_ONE[kind]} on {listed(names)}" for kind, names in sorted(by_kind.items())])
            said = [nodes.one_of(name, resource).said.partition("=") for names in by_kind.values() for name in names]
            labels = sorted({key for key, is_label, _ in said if is_label})
            select = f", or select by {listed(labels)}" if labels else ""
            step = f"give them other names (renameByDefault, MIG strategy mixed){select}"
            found.append(warn(f"{resource} is {each}: pods cannot tell", step))
    return found or "every resource of GPUs is the same on every node"


_ONE: Final = {"whole": "a whole GPU", "slice": "a slice of a GPU", "share": "a share of a GPU"}


def two_stacks(snapshot: Snapshot, policy: Policy) -> All:
    """No GPUs are handed out by a device plugin and by DRA."""
    nodes = snapshot.state.nodes
    twice = nodes.twice(policy.gpus.among(nodes.columns.capacity))
    names = sorted([nodes.columns.name[row] for row in np.flatnonzero(twice).tolist()])
    if not names:
        return "no node offers its GPUs by a device plugin and by DRA"
    text = f"a device plugin and a driver of DRA both hand out the GPUs of {listed(names)}: one GPU may be given to two pods"
    return [warn(text, "let one of them run on each node: label the nodes, and select these in both DaemonSets")]


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
