"""By which name the scheduler of a pod knows its gang: pods that start together or not at all."""

from typing import Final

from webhook.kube.pod import Pod, annotations_of, labels_of

_NAMES: Final = (
    *("scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"),
    *("pod-group.scheduling.sigs.k8s.io/name", "pod-group-name"),
)
"""Annotations and labels of Volcano, coscheduling, YuniKorn and KAI (its pod grouper writes the last, pkg/common/constants)."""


def gang_name(pod: Pod) -> str | None:
    """The name of the pod's gang; None if it has none."""
    stated = {**labels_of(pod), **annotations_of(pod)}
    return pod_group(pod) or next((stated[key] for key in _NAMES if key in stated), None)


def pod_group(pod: Pod) -> str | None:
    """The name of its PodGroup of Kubernetes (KEP-4671)."""
    return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
