"""Why a workload has no pods though nothing refuses them: it has 0 replicas, is paused, has finished, or is not due."""

from webhook.kube.suspended import finished
from webhook.text import bare, printable, quoted
from webhook.whatif.cluster.snapshot import Object
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import Cause, Fix

_MAX_MESSAGE = 300


def idle(obj: Object) -> Cause | None:
    """The cause; None if the object does not say."""
    spec, status, namespace = obj["spec"], obj["status"], obj["metadata"]["namespace"]
    name = f"{obj['kind'].lower()}/{obj['metadata']['name']}"
    if obj["kind"] == "CronJob":
        last = f"; the last was at {bare(status['lastScheduleTime'])}" if status.get("lastScheduleTime") else ""
        text = f"its next Job comes by its schedule, {quoted(spec.get('schedule'))}{last}"
        job = f"{obj['metadata']['name']}-now"
        return Cause.of(
            "noPods", text, Fix("or run it now", kubectl("create", "job", job, f"--from={name}", namespace=namespace))
        )
    if finished(obj):
        ends = [each for each in status.get("conditions") or () if each.get("status") == "True" and each.get("reason")]
        why = "".join(
            [f": {bare(each['reason'])}, {printable(str(each.get('message')))[:_MAX_MESSAGE]}" for each in ends[-1:]]
        )
        return Cause.of("noPods", f"it has finished{why}", "create it again")
    if obj["kind"] == "DaemonSet" and not status.get("desiredNumberScheduled"):
        text = "no node is for its pods, by their node selector, node affinity or tolerations"
        look = kubectl("get", "nodes", "-o", "custom-columns=NAME:.metadata.name,TAINTS:.spec.taints")
        return Cause.of("noPods", text, Fix("compare its template with the labels and taints of nodes", look))
    if spec.get("replicas") == 0:
        scale = kubectl("scale", name, "--replicas=1", namespace=namespace)
        return Cause.of("noPods", "it is to have 0 replicas", Fix("scale it, or see what scales it", scale))
    if obj["kind"] == "Deployment" and spec.get("paused") is True:
        return Cause.of(
            "noPods", "it is paused", Fix("resume it", kubectl("rollout", "resume", name, namespace=namespace))
        )
    return None
