"""Which labels of a pod are those of its workload, and which tell its pods or revisions apart."""

from __future__ import annotations

from typing import Final

from webhook.kube.pod import Pod, labels_of

REVISION_LABELS: Final = ("pod-template-hash", "controller-revision-hash")
"""Equal for the pods of one revision."""
_POD_LABELS: Final = frozenset(
    (
        *REVISION_LABELS,
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "job-name",  # said again by batch.kubernetes.io/job-name
        "leaderworkerset.sigs.k8s.io/worker-index",
        "training.kubeflow.org/replica-index",
    )
)
"""Labels that say which pod it is, not whose."""
_MAX_LABELS: Final = 16


def stable_labels(pod: Pod) -> dict[str, str]:
    """The labels that all pods of the owner have in common, at most _MAX_LABELS of them, sorted."""
    stable = sorted([label for label in labels_of(pod).items() if label[0] not in _POD_LABELS])
    return dict(stable[:_MAX_LABELS])
