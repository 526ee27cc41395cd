"""Critical workloads are covered by a PodDisruptionBudget: without one a drain of nodes may evict all replicas at once.

While the budgets of the cluster are not known, nothing is reported.

Fields read:   metadata.labels of a template; the replicas, class and controller of its workload; the HorizontalPodAutoscaler
               that scales it, if it is known
Allowed:       one replica, which no budget can keep; classes that `classes` does not name; Jobs and custom resources, whose
               controllers add labels that a budget may select
Warned about:  no PodDisruptionBudget of the namespace selects pods with the labels of the template
DRA:           a claim counts as a GPU
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.framework.replicas import many_replicas
from webhook.kube.asked import AskedPod

_KINDS = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""Kinds of the controller of the pods. The pods of a Deployment are controlled by a ReplicaSet."""


class PdbMissing(Rule):
    of_whole_pods: ClassVar[bool] = True
    not_exported: ClassVar[str] = "is about templates, and needs the state of the cluster"

    action: Action = "warn"
    classes: tuple[str, ...] = ("inference-critical", "inference", "service")
    """The critical classes of workload."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        owner = pod.owner
        if not context.template or owner is None or owner.kind not in _KINDS:
            return
        seen = many_replicas(pod, context, 2) if context.workload.name in self.classes else ""
        if seen and pod.has_gpu and context.cluster.budget_covers(context.namespace, pod.labels) is False:
            yield Finding(
                path="metadata.labels",
                seen=f"{seen} without a PodDisruptionBudget",
                wanted="one that selects these labels, with maxUnavailable 1",
                fix="Create it with the selector of the workload, unless it is applied along with this: "
                "a drain of nodes may take all replicas at once",
            )
