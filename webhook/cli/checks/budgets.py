"""Checks the PodDisruptionBudgets of workloads that serve."""

from webhook.cli.checks.result import All, warn
from webhook.kube.pod import FINISHED, Pod
from webhook.kube.record import record_of
from webhook.policy.model import Policy
from webhook.text import listed, plural
from webhook.whatif.cluster.report import asks_for_gpus
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.disruption import CREATE_BUDGET, Budgets
from webhook.whatif.names import Names


def budgets(snapshot: Snapshot, policy: Policy) -> All:
    """A drain of nodes may not evict all replicas at once of a workload that serves."""
    names, found, replicas = Names(snapshot), Budgets(snapshot), dict[str, list[Pod]]()
    for pod in snapshot.of("Pod"):
        if record_of(pod) and pod["status"].get("phase") not in FINISHED and asks_for_gpus(pod, policy):
            replicas.setdefault(names.top(pod), []).append(pod)
    without = []
    for name, pods in sorted(replicas.items()):
        record = record_of(pods[0])
        serves = policy.spreads(str(record.get("profile")), str(record.get("class")))
        if found.lacks(pods[0], len(pods), serves=serves):
            without.append(name)
    if without:
        text = f"{plural(len(without), 'service')} without a PodDisruptionBudget, so that a drain of nodes may evict all pods"
        return [warn(f"{text}: {listed(without, 5)}", CREATE_BUDGET)]
    return "services of several GPU pods have one"
