"""Workloads with an autoscaler, and the numbers of their pods."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.admission.templates import THIEF, Json, asked, deployment, policy, validated
from tests.builders import TWO_NODES
from webhook.admission.response import warnings_of
from webhook.framework.cluster_view import Autoscaler
from webhook.kube.review import Request
from webhook.policy.model import Policy, PolicyFile

NO_SPREAD: dict[str, Any] = {"injectors": {"topologySpread": {"enabled": False}}}
SCALED = replace(
    TWO_NODES, autoscalers={("team-a", kind, "app"): Autoscaler("app", 40) for kind in ("Deployment", "StatefulSet")}
)
FORETOLD = (
    'spreadMissing: up to 40 replicas by HorizontalPodAutoscaler "app" without topology spread or pod anti-affinity'
)


def spread_of(warnings: list[str]) -> list[str]:
    return [line for line in warnings if line.startswith("spreadMissing")]


def test_a_workload_that_is_scaled_and_will_be_spread_is_fine() -> None:
    assert spread_of(warnings_of(validated(asked(deployment(replicas=1)), policy(), SCALED))) == []


def test_an_autoscaler_does_not_scale_a_kind_of_another_group() -> None:
    custom = {"group": "example.com", "kind": "Deployment", "path": "spec.template", "ownerKind": "ReplicaSet"}
    under = {"default": {"templates": {"custom": [custom]}, **NO_SPREAD}}
    warnings = warnings_of(
        validated(
            asked(deployment(replicas=1), group="example.com"),
            Policy.of(PolicyFile.model_validate({"profiles": under})),
            SCALED,
        )
    )
    assert spread_of(warnings) == []


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_without_added_spread_the_warning_names_the_maximum_of_the_autoscaler(kind: str) -> None:
    obj = {**deployment(replicas=1), "kind": kind}
    (warning,) = spread_of(warnings_of(validated(asked(obj), policy(**NO_SPREAD), SCALED)))
    assert warning.startswith(FORETOLD)


# --- How many pods there will be --------------------------------------------------------------------------------------


def pytorch_job(**replicas: int) -> Json:
    template = deployment()["spec"]["template"]
    specs = {name: {"replicas": count, "template": deepcopy(template)} for name, count in replicas.items()}
    return {"kind": "PyTorchJob", "metadata": {"name": "tune"}, "spec": {"pytorchReplicaSpecs": specs}}


RAY = {
    "kind": "RayCluster",
    "metadata": {"name": "tune"},
    "spec": {
        "headGroupSpec": deployment()["spec"],
        "workerGroupSpecs": [{"template": deployment()["spec"]["template"]}],
    },
}


def test_the_pods_of_a_workload_that_is_created_are_counted() -> None:
    tune = asked(pytorch_job(Master=1, Worker=3), group="kubeflow.org", name="tune")
    assert validated(tune, policy()).gang == ("team-a/PyTorchJob/tune", 4)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(asked(deployment({"limits": {"cpu": "1"}})), id="no GPU"),
        pytest.param(asked(deployment(THIEF), deployment()), id="an update"),
        pytest.param(asked(RAY, group="ray.io"), id="a group of workers of unknown size"),
        pytest.param(
            asked({**pytorch_job(Worker=2), "metadata": {"name": "x", "ownerReferences": [{"controller": True}]}}),
            id="a workload that another workload created",
        ),
    ],
)
def test_others_are_not_counted(request_: Request) -> None:
    assert validated(request_, policy()).gang is None
