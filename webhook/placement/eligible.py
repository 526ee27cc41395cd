"""Pods whose node is not ours to choose, and why: a constant reason each."""

from __future__ import annotations

from webhook.kube.pod import MIRROR, Pod, annotations_of, labels_of, owner

KUEUE = "kueue.x-k8s.io/queue-name"
_SCHEDULER = "default-scheduler"


def ineligible(pod: Pod) -> str:
    """Why no node is to be chosen for this pod; "" where one may be."""
    spec = pod["spec"]
    controller = owner(pod)
    if controller is not None and controller.kind == "DaemonSet":
        return "pod of a DaemonSet"
    if MIRROR in annotations_of(pod) or (controller is not None and controller.kind == "Node"):
        return "static pod"
    if spec.get("nodeName"):
        return "nodeName is set"
    if spec.get("schedulingGates"):
        return "scheduling gates"
    if KUEUE in labels_of(pod):
        return "managed by Kueue"
    if (spec.get("schedulerName") or _SCHEDULER) != _SCHEDULER:
        return "another scheduler"
    return ""
