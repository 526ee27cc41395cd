"""The labels that the pods of one owner have in common."""

from __future__ import annotations

from tests.builders import pod
from webhook.kube.labels import stable_labels


def test_the_selector_is_what_all_pods_of_the_owner_have() -> None:
    labels = {
        "app": "train",
        "batch.kubernetes.io/job-name": "train",
        "job-name": "train",
        "controller-uid": "u",
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-completion-index": "3",
        "apps.kubernetes.io/pod-index": "3",
    }
    assert stable_labels(pod(labels=labels)) == {"app": "train", "batch.kubernetes.io/job-name": "train"}


def test_a_pod_with_very_many_labels_gets_a_short_selector() -> None:
    many = {f"l{i:03}": "v" for i in range(1000)}
    assert stable_labels(pod(labels=many)) == {f"l{i:03}": "v" for i in range(16)}
