"""How many replicas a workload has, or may get by a HorizontalPodAutoscaler: for rules that speak of workloads."""

from __future__ import annotations

from webhook.framework.interface import Context
from webhook.kube.pod import Pod, labels_of
from webhook.text import plural, quoted


def many_replicas(pod: Pod, context: Context, many: int) -> str:
    """The replicas of the workload that the pod belongs to, in words; "" where they are fewer than `many`. Of a pod only what
    an autoscaler says is known."""
    if context.owner is None:
        return ""
    stated = (1 if context.replicas is None else context.replicas) if context.template else 0
    kind, name = (context.template_of if context.template else context.owner.kind), context.owner.name
    revision = labels_of(pod).get("pod-template-hash")
    if not context.template and kind == "ReplicaSet" and revision and name.endswith(f"-{revision}"):
        kind, name = "Deployment", name.removesuffix(f"-{revision}")  # its ReplicaSet has its name, and then the hash
    autoscaler = context.cluster.autoscaler_of(context.namespace, kind, name)
    if autoscaler and autoscaler.max_replicas >= max(many, stated + 1):
        return (
            f"up to {plural(autoscaler.max_replicas, 'replica')} by HorizontalPodAutoscaler {quoted(autoscaler.name)}"
        )
    return plural(stated, "replica") if stated >= many else ""
