"""How many pods are made from a template."""

from typing import Any

import pytest

from webhook.policy.templates import Templates, templates

POD = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
JOB = {"parallelism": 2, "completions": 8, "template": POD}
TEMPLATES = Templates()


def counted(group: str, kind: str, spec: dict[str, Any]) -> list[int | None]:
    obj = {"kind": kind, "metadata": {"name": "w"}, "spec": spec}
    return [each.replicas for each in templates(obj, group, kind, TEMPLATES)]


@pytest.mark.parametrize(
    ("group", "kind", "spec", "counts"),
    [
        pytest.param("apps", "Deployment", {"template": POD}, [1], id="one by default"),
        pytest.param("apps", "Deployment", {"replicas": 3, "template": POD}, [3], id="replicas"),
        pytest.param("apps", "StatefulSet", {"replicas": 0, "template": POD}, [0], id="no replicas"),
        pytest.param("apps", "DaemonSet", {"template": POD}, [None], id="one on each node"),
        pytest.param("batch", "Job", {"template": POD}, [1], id="a Job of one pod"),
        pytest.param("batch", "Job", JOB, [2], id="a Job, as many as run at once"),
        pytest.param("batch", "Job", {"parallelism": 9, "completions": 4, "template": POD}, [4], id="no more than it completes"),
        pytest.param("batch", "CronJob", {"jobTemplate": {"spec": JOB}}, [2], id="one run of a CronJob"),
        pytest.param("kubeflow.org", "PyTorchJob", {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": POD}, "Worker": {"replicas": 3, "template": POD}}}, [1, 3], id="master and workers"),
        pytest.param("jobset.x-k8s.io", "JobSet", {"replicatedJobs": [{"replicas": 4, "template": {"spec": JOB}}]}, [8], id="jobs of a JobSet times their pods"),
        pytest.param("leaderworkerset.x-k8s.io", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": POD}}, [8], id="groups whose leader has the template of the workers"),
        pytest.param(
            "leaderworkerset.x-k8s.io",
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "leaderTemplate": POD, "workerTemplate": POD}},
            [2, 6],
            id="groups whose leader has its own template",
        ),
        pytest.param("ray.io", "RayCluster", {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"replicas": 2, "numOfHosts": 4, "minReplicas": 0, "template": POD}]}, [1, 8], id="hosts of a Ray group"),
        pytest.param("trainer.kubeflow.org", "TrainJob", {"trainer": {"numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}}, [4], id="nodes of a TrainJob"),
        pytest.param("serving.kserve.io", "InferenceService", {"predictor": {"minReplicas": 2, "model": {"name": "m"}}}, [2], id="the minimum replicas of an InferenceService"),
        pytest.param("apps", "Deployment", {"replicas": "x", "template": POD}, [1], id="a value that is not a number counts as one"),
    ],
)  # fmt: skip
def test_number_of_pods_of_each_template(group: str, kind: str, spec: dict[str, Any], counts: list[int | None]) -> None:
    assert counted(group, kind, spec) == counts
