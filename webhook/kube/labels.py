"""Tells the labels that all pods of a workload share from those of single pods or revisions."""

from __future__ import annotations

from typing import Final

from webhook.kube.pod import Pod, labels_of

REVISION_LABELS: Final = ("pod-template-hash", "controller-revision-hash")
"""Labels whose value is the same for all pods of one revision."""
_POD_LABELS: Final = frozenset(
    (
        *REVISION_LABELS,
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "job-name",  # batch.kubernetes.io/job-name has the same value
        "leaderworkerset.sigs.k8s.io/worker-index",
        "training.kubeflow.org/replica-index",
    )
)
"""Labels that differ between the pods or revisions of a workload, or that repeat its identity."""
_MAX_LABELS: Final = 16


def stable_labels(pod: Pod) -> dict[str, str]:
    """The labels that all pods of the owner share: sorted, the first _MAX_LABELS of them."""
    stable = sorted([(key, value) for key, value in labels_of(pod).items() if key not in _POD_LABELS])
    return dict(stable[:_MAX_LABELS])
