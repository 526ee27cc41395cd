"""Many replicas do not all run on one node.

Off by default: the injector for topology spread adds what is missing. Turn it on where that injector is off.

Fields read:   spec.topologySpreadConstraints and spec.affinity.podAntiAffinity of a template; the replicas of its workload
Allowed:       either of the two; fewer than `replicas`; Jobs, whose pods gain from being close together
Warned about:  neither, in a Deployment, StatefulSet or ReplicaSet of GPU pods
DRA:           a claim counts as a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from webhook.interface import Action, Context, Finding, Rule
from webhook.pod import Pod
from webhook.text import plural

_KINDS = ("Deployment", "StatefulSet", "ReplicaSet")


class SpreadMissing(Rule):
    """Workloads with many replicas are spread over nodes."""

    action: Action = "off"
    replicas: int = Field(default=2, ge=1)
    """How many replicas are many. 1 also finds workloads that an autoscaler scales: they say one, or nothing."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        count, kind = (
            context.replicas if context.replicas is not None else 1,
            context.owner.kind if context.owner else "",
        )
        if not context.template or count < self.replicas or kind not in _KINDS:
            return
        spec = pod["spec"]
        if spec.get("topologySpreadConstraints") or (spec.get("affinity") or {}).get("podAntiAffinity"):
            return
        if context.has_gpu(pod):
            yield Finding(
                path="spec.topologySpreadConstraints",
                seen=f"{plural(count, 'replica')} without topology spread or pod anti-affinity",
                wanted="replicas on several nodes: one node that fails would take all of them",
                fix="Add a topologySpreadConstraint over kubernetes.io/hostname with the labels of the pods",
            )
