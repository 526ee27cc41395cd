"""Critical workloads without a PodDisruptionBudget."""

from collections.abc import Mapping
from dataclasses import replace

from tests.builders import TWO_NODES, Case, case, container
from tests.controlplane.objects import pod
from webhook.framework.cluster_view import Autoscaler
from webhook.framework.interface import Template
from webhook.rules.pdb_missing import PdbMissing

RULE = PdbMissing()
LABELS = {"app": "chat", "tier": "gpu"}


def template(
    replicas: int | None = 4,
    owned_by: str = "ReplicaSet",
    gpu: int | None = 1,
    *,
    workload: str = "inference",
    labels: Mapping[str, str] | None = LABELS,
    budgets: Mapping[str, Mapping[str, str]] | None = {},
    rule: PdbMissing | None = None,
    up_to: int = 0,
) -> Case:
    """The template of a workload in team-a. `budgets` is None if they are not known; `up_to` is the maximum of an autoscaler."""
    made = pod(containers=[container(gpu=gpu)], name="chat", labels=labels, owned_by=owned_by)
    scaled = {("team-a", "Deployment", "chat"): Autoscaler("chat", up_to)} if up_to else {}
    cluster = replace(TWO_NODES, budgets=budgets, autoscalers=scaled)
    return case(made, template=Template(replicas, "Deployment"), workload=workload, cluster=cluster, rule=rule)


ALLOWED: dict[str, Case] = {
    "one replica": template(1),
    "an autoscaler that leaves it at one": template(1, up_to=1),
    "scaled, with a budget": template(1, up_to=40, budgets={"team-a": {"app": "chat"}}),
    "another class": template(workload="training"),
    "a class that the policy does not name": template(rule=PdbMissing(classes=())),
    "budgets are not known": template(budgets=None),
    "a budget for everything": template(budgets={"team-a": {}}),
    "without a GPU": template(gpu=None),
    "a Job": template(owned_by="Job"),
    "a custom resource, whose controller adds labels": template(owned_by="RayCluster"),
    "a pod, whose workload is not asked about": case(
        pod(owned_by="ReplicaSet"), workload="inference", cluster=replace(TWO_NODES, budgets={})
    ),
}


def message(replicas: str) -> list[str]:
    return [
        f"metadata.labels: saw {replicas} without a PodDisruptionBudget, wanted one that selects these labels, with "
        "maxUnavailable 1. Create it with the selector of the workload, unless it is applied along with this: a drain of "
        "nodes may take all replicas at once."
    ]


REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a Deployment": (template(), message("4 replicas")),
    "two replicas of a StatefulSet": (template(2, "StatefulSet"), message("2 replicas")),
    "a ReplicationController": (template(owned_by="ReplicationController"), message("4 replicas")),
    "one that may be scaled": (template(1, up_to=40), message('up to 40 replicas by HorizontalPodAutoscaler "chat"')),
    "a budget for other pods": (template(budgets={"team-a": {"app": "search"}}), message("4 replicas")),
    "a budget of another namespace": (template(budgets={"team-b": {}}), message("4 replicas")),
    "pods without labels": (template(labels=None), message("4 replicas")),
    "a class that the policy names": (
        template(workload="training", rule=PdbMissing(classes=("inference", "training"))),
        message("4 replicas"),
    ),
}
