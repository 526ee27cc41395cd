"""The replicas of a workload are spread over nodes.

The injector `topologySpread` adds a missing constraint before rules see the pod. So this rule finds something only if that
injector is off or does not act, for example on pods whose GPUs come by DRA. With a HorizontalPodAutoscaler its maxReplicas
counts.

Fields read:   spec.topologySpreadConstraints and spec.affinity.podAntiAffinity; the replicas of the template's workload; the
               HorizontalPodAutoscaler of the workload, found by the pod's controller and its label pod-template-hash
Allowed:       a topology spread constraint or a pod anti-affinity; fewer than `replicas`; Jobs, whose pods gain from being
               close together
Warned about:  neither, in a Deployment, StatefulSet or ReplicaSet of GPU pods
DRA:           a claim counts as a GPU
"""

from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.framework.replicas import many_replicas
from webhook.kube.asked import AskedPod

_KINDS = ("ReplicaSet", "StatefulSet")
"""Kinds of the controller of the pods. The pods of a Deployment are controlled by a ReplicaSet."""


class SpreadMissing(Rule):
    of_whole_pods: ClassVar[bool] = True
    not_exported: ClassVar[str] = "is about templates, and needs the state of the cluster"

    action: Action = "warn"
    replicas: int = Field(default=2, ge=1)
    """The smallest number of replicas that must be spread."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        owner, spec = pod.owner, pod.spec
        if owner is None or owner.kind not in _KINDS:
            return
        if spec.get("topologySpreadConstraints") or (spec.get("affinity") or {}).get("podAntiAffinity"):
            return
        seen = many_replicas(pod, context, self.replicas)
        if not seen or not pod.has_gpu:
            return
        yield Finding(
            path="spec.topologySpreadConstraints",
            seen=f"{seen} without topology spread or pod anti-affinity",
            wanted="replicas on several nodes: one node that fails would take all of them",
            fix="Add a topologySpreadConstraint over kubernetes.io/hostname with the labels of the pods, and ScheduleAnyway",
            only_warn=not context.template,
        )
