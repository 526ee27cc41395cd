"""Workloads, and what stands where their template should."""

from collections.abc import Callable
from typing import Any, Final

from bench.bodies.parts import (
    Json,
    add,
    container,
    everything,
    mounts,
    pod,
    review,
)


def _workload(spec: Json, kind: str = "Deployment", group: str = "apps", **request: Any) -> bytes:
    obj = {"metadata": {"name": "web", "namespace": "serving"}, "spec": spec}
    return review(obj, kind, group, kind.lower() + "s", **request)


def _template(made: Json) -> Json:
    return {"metadata": {"labels": {"app": "web"}}, "spec": made["spec"]}


_SELECTOR: Final[Json] = {"matchLabels": {"app": "web"}}


def _deployment(name: str, make: Callable[[], Json], **spec: Any) -> None:
    add(name, lambda: _workload({"selector": _SELECTOR, "template": _template(make())} | spec))


_deployment("Deployment: 1,000 volumes, 20 unknown mounts", lambda: mounts(1_000, 20))
_deployment("Deployment: 1,000 volumes, 2,000 unknown mounts", lambda: mounts(1_000, 2_000))
_deployment("Deployment: everything at its bound", everything)
_deployment("Deployment: 70,000 containers", lambda: pod([container()] * 70_000))
_deployment("Deployment: 2,500,000 empty containers", lambda: pod([{}] * 2_500_000))
_deployment(
    "Deployment: a selector of 100,000 labels",
    pod,
    selector={"matchLabels": {f"a{n}": "b" for n in range(100_000)}},
)
_deployment(
    "Deployment: a selector of 60,000 expressions",
    pod,
    selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}] * 60_000},
)
_deployment(
    "Deployment: a selector with 500,000 values",
    pod,
    selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"] * 500_000}]},
)
add(
    "Deployment: 100,000 labels",
    lambda: review(
        {
            "metadata": {"name": "web", "labels": {f"a{n}": "?" for n in range(100_000)}},
            "spec": {"selector": _SELECTOR, "template": _template(pod())},
        },
        "Deployment",
        "apps",
        "deployments",
    ),
)
add(
    "Deployment: UPDATE, 1,000 volumes, 2,000 unknown mounts",
    lambda: _workload(
        {"selector": _SELECTOR, "template": _template(mounts(1_000, 2_000, "new"))},
        oldObject={
            "metadata": {"name": "web"},
            "spec": {"selector": _SELECTOR, "template": _template(mounts(1_000, 2_000, "old"))},
        },
    ),
)
add(
    "CronJob: 30,000 containers",
    lambda: _workload(
        {"jobTemplate": {"spec": {"template": _template(pod([container()] * 30_000))}}}, "CronJob", "batch"
    ),
)
add(
    "StatefulSet: 60,000 claims for volumes",
    lambda: _workload(
        {
            "selector": _SELECTOR,
            "template": _template(pod()),
            "volumeClaimTemplates": [{"metadata": {"name": f"a{n}"}} for n in range(60_000)],
        },
        "StatefulSet",
    ),
)
add(
    "PyTorchJob: 20,000 kinds of replicas",
    lambda: _workload(
        {"pytorchReplicaSpecs": {f"a{n}": {"template": _template(pod())} for n in range(20_000)}},
        "PyTorchJob",
        "kubeflow.org",
    ),
)
add(
    "PyTorchJob: 30 kinds of replicas with 100 unknown mounts each",
    lambda: _workload(
        {"pytorchReplicaSpecs": {f"a{n}": {"template": _template(mounts(300, 100))} for n in range(30)}},
        "PyTorchJob",
        "kubeflow.org",
    ),
)
add(
    "PyTorchJob: 4 kinds of replicas with everything at its bound",
    lambda: _workload(
        {"pytorchReplicaSpecs": {f"a{n}": {"template": _template(everything())} for n in range(4)}},
        "PyTorchJob",
        "kubeflow.org",
    ),
)
add(
    "JobSet: 30 jobs with 250 containers each",
    lambda: _workload(
        {
            "replicatedJobs": [
                {"template": {"spec": {"template": _template(pod([container(name=f"c{n}") for n in range(250)]))}}}
            ]
            * 30
        },
        "JobSet",
        "jobset.x-k8s.io",
    ),
)
add(
    "RayCluster: 1,000,000 groups of workers",
    lambda: _workload({"workerGroupSpecs": [{"": 0}] * 1_000_000}, "RayCluster", "ray.io"),
)
