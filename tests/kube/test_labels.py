"""The labels that the pods of one owner have in common."""

from __future__ import annotations

from tests.builders import pod
from webhook.kube.labels import stable_labels


def test_labels_that_differ_between_pods_or_repeat_are_left_out() -> None:
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


def test_the_number_of_labels_is_bounded() -> None:
    many = {f"l{i:03}": "v" for i in range(1000)}
    assert stable_labels(pod(labels=many)) == {f"l{i:03}": "v" for i in range(16)}
