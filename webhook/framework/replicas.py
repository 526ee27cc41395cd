"""The number of replicas of a workload, or the number that a HorizontalPodAutoscaler may give it."""

from webhook.framework.interface import Context
from webhook.kube.asked import AskedPod
from webhook.text import plural, quoted


def many_replicas(pod: AskedPod, context: Context, many: int) -> str:
    """The number of replicas of the pod's workload, in words; "" if it is less than `many`.

    For a pod that is not a template, only the maximum of an autoscaler is known. "" for a custom resource.
    """
    if pod.owner is None or (context.template is not None and not context.template.kind):
        return ""
    template, kind, name, stated = context.template, pod.owner.kind, pod.owner.name, 0
    if template is not None:
        kind, stated = template.kind, 1 if template.replicas is None else template.replicas
    revision = pod.labels.get("pod-template-hash")
    if template is None and kind == "ReplicaSet" and revision and name.endswith(f"-{revision}"):
        kind, name = "Deployment", name.removesuffix(f"-{revision}")  # a ReplicaSet is named <Deployment>-<hash>
    autoscaler = context.cluster.autoscaler_of(context.namespace, kind, name)
    if autoscaler and autoscaler.max_replicas >= max(many, stated + 1):
        return (
            f"up to {plural(autoscaler.max_replicas, 'replica')} by HorizontalPodAutoscaler {quoted(autoscaler.name)}"
        )
    return plural(stated, "replica") if stated >= many else ""
