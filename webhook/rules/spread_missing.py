"""The replicas of a workload are spread over nodes.

Rules judge pods as the injectors leave them: where `topologySpread` is on it adds what is missing, and nothing is found. So
something is found only where that injector is off, or does not act: on pods whose GPUs come by DRA.

A workload that a HorizontalPodAutoscaler scales has as many replicas as that may make. Where it is applied after the
workload, the template is judged by it when it next changes, and each new pod in the meantime. A pod is never refused for
it, since its workload was there before the autoscaler. A warning about a pod goes to its controller: it is read in logs and
metrics. Whoever applies the autoscaler is told nothing, since whether the pods of a workload are spread is not kept.

Fields read:   spec.topologySpreadConstraints and spec.affinity.podAntiAffinity; the replicas of the workload of a template; the
               HorizontalPodAutoscaler of the workload, found by the pod's controller and its label pod-template-hash
Allowed:       either of the two; fewer than `replicas`; Jobs, whose pods gain from being close together
Warned about:  neither, in a Deployment, StatefulSet or ReplicaSet of GPU pods
DRA:           a claim counts as a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.framework.replicas import many_replicas
from webhook.kube.pod import Pod

_KINDS = ("ReplicaSet", "StatefulSet")
"""Controllers of the pods; for a Deployment it is its ReplicaSet."""


class SpreadMissing(Rule):
    """Workloads with this many replicas or more are spread over nodes: those they ask for, or those that a
    HorizontalPodAutoscaler may ask for. Where topologySpread is on there is nothing to find."""

    not_exported: ClassVar[str] = "is about templates, and needs the state of the cluster"

    action: Action = "warn"
    replicas: int = Field(default=2, ge=1)
    """How many replicas are many."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        owner, spec = context.owner, pod["spec"]
        if owner is None or owner.kind not in _KINDS:
            return
        if spec.get("topologySpreadConstraints") or (spec.get("affinity") or {}).get("podAntiAffinity"):
            return
        seen = many_replicas(pod, context, self.replicas)
        if not seen or not context.has_gpu(pod):
            return
        yield Finding(
            path="spec.topologySpreadConstraints",
            seen=f"{seen} without topology spread or pod anti-affinity",
            wanted="replicas on several nodes: one node that fails would take all of them",
            fix="Add a topologySpreadConstraint over kubernetes.io/hostname with the labels of the pods",
            only_warn=not context.template,
        )
