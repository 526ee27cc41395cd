"""How the webhook was installed, by the objects of it that are there, and the commands of next steps."""

import shlex
from typing import Any

import pytest

from webhook.whatif.cluster.release import Release, release_of

Json = dict[str, Any]
PART = {"app.kubernetes.io/part-of": "gpu-admission"}
HELM = PART | {"app.kubernetes.io/managed-by": "Helm"}
MUTATING = "MutatingWebhookConfiguration"


def configuration(namespace: str = "gpu-admission", labels: Json | None = None, release: str = "") -> Json:
    client = {"service": {"name": "gpu-admission", "namespace": namespace, "path": "/mutate"}}
    return labelled(labels, release) | {"webhooks": [{"name": "m", "clientConfig": client}]}


def labelled(labels: Json | None, release: str = "", name: str = "gpu-admission") -> Json:
    annotations = {"meta.helm.sh/release-name": release} if release else {}
    return {"metadata": {"name": name, "labels": labels or {}, "annotations": annotations}}


CASES = [
    pytest.param({}, Release("gpu-admission"), id="nothing is there"),
    pytest.param({MUTATING: [configuration(labels=PART)]}, Release("gpu-admission"), id="the manifests"),
    pytest.param({MUTATING: [configuration("gpu", PART)]}, Release("gpu"), id="the manifests, in another namespace"),
    pytest.param({MUTATING: [configuration("gpu", HELM, "mine")]}, Release("gpu", "mine"), id="the chart"),
    pytest.param(
        {MUTATING: [configuration("gpu", HELM, "mine") | {"webhooks": [{"clientConfig": {"url": "https://x"}}]}]},
        Release("gpu-admission", "mine"),
        id="called by URL",
    ),
    pytest.param(
        {MUTATING: [configuration("gpu", PART)], "PriorityClass": [labelled(HELM, "old", "gpu-training")]},
        Release("gpu"),
        id="the manifests, beside priority classes that a release has left",
    ),
    pytest.param(
        {MUTATING: [], "ConfigMap": [labelled(HELM, "mine", "gpu-admission-policy")]},
        Release("gpu-admission", "mine"),
        id="the chart, without its configurations",
    ),
    pytest.param(
        {MUTATING: [configuration("gpu", HELM, "mine")], "ConfigMap": [labelled({}, "", "gpu-admission-policy")]},
        Release("gpu", "mine", own_policy=True),
        id="the chart, with a policy of their own",
    ),
    pytest.param(
        {MUTATING: [configuration() | labelled({"app.kubernetes.io/managed-by": "Helm"}, "other", "other")]},
        Release("gpu-admission"),
        id="the chart of somebody else",
    ),
]


@pytest.mark.parametrize(("objects", "found"), CASES)
def test_what_is_there_says_how_it_was_installed(objects: dict[str, list[Json]], found: Release) -> None:
    assert release_of(objects) == found


def test_whoever_names_the_namespace_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.whatif.cluster.release.NAMED", "named")
    assert release_of({MUTATING: [configuration("gpu", HELM, "mine")]}) == Release("named", "mine")


def test_next_steps_of_the_chart() -> None:
    release = Release("gpu", "mine")
    upgrade = "helm upgrade mine manifests/chart -n gpu --reset-then-reuse-values"
    assert shlex.join(release.logs) == "kubectl -n gpu logs deployment/gpu-admission"
    assert release.apply == release.file("70-guards.yaml") == upgrade
    assert shlex.join(release.edit_policy) == f"{upgrade} --set-file policy.text=policy.yaml"
    assert release.created("policy") == f"{upgrade} --set policy.create=true"
    assert (
        release.created("priorityClasses", "50-priority-classes.yaml") == f"{upgrade} --set priorityClasses.create=true"
    )
    assert (
        Release().created("priorityClasses", "50-priority-classes.yaml")
        == "kubectl apply -f manifests/50-priority-classes.yaml"
    )
    own = release._replace(own_policy=True)
    assert shlex.join(own.edit_policy) == "kubectl -n gpu edit configmap gpu-admission-policy"
    assert release.component("every-pod") == f"{upgrade} --set components.everyPod=true"
