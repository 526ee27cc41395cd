"""For each kind of workload: its template and the pods that its controllers create are of one class, and of one gang or none.

The pods are those of the controllers' sources: the kind of their controller, and the labels that they get.

Covers kube.workload_kinds.
"""

from typing import Any

import pytest

from tests.builders import GPUS, container
from webhook.kube.asked import AskedPod
from webhook.kube.json_patch import at
from webhook.kube.pod import Pod, labels_of, owner
from webhook.placement.gangs import gang_size
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.policy.templates import templates

SHIPPED = Policy.load("{}")
GANGS = SHIPPED.profile(DEFAULT_PROFILE)[1].placement.gangs
SPEC = {"containers": [container()]}
POD = {"spec": SPEC}
KUBEFLOW = {
    f"training.kubeflow.org/{key}": "t" for key in ("job-name", "operator-name", "replica-index", "replica-type")
}
JOB = {"batch.kubernetes.io/job-name": "t", "batch.kubernetes.io/controller-uid": "u"}
JOBSET = {**JOB, "jobset.sigs.k8s.io/jobset-name": "t", "jobset.sigs.k8s.io/jobset-uid": "u"}
RAY = {"ray.io/cluster": "t", "ray.io/node-type": "worker", "ray.io/is-ray-node": "yes", "ray.io/group": "g"}
LWS = {"leaderworkerset.sigs.k8s.io/name": "t", "leaderworkerset.sigs.k8s.io/group-key": "k"}
REVISION = {"pod-template-hash": "5d8f"}
KNATIVE = {**REVISION, "serving.knative.dev/service": "t"}
KSERVE = {**REVISION, "serving.kserve.io/inferenceservice": "t", "component": "predictor"}
RAY_SPEC = {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"template": POD}]}
JOBSET_SPEC = {"replicatedJobs": [{"template": {"spec": {"template": POD}}}]}
REPLICAS = {"Worker": {"template": POD}}
TRAIN, SERVE, DEVELOP = ("training", True), ("service", False), ("development", False)

# group and kind; spec; kind of the controller of the pods; labels that the pods get; class and whether they are a gang
CASES: list[tuple[str, dict[str, Any], str | None, dict[str, str], tuple[str, bool]]] = [
    ("/ReplicationController", {"template": POD}, "ReplicationController", {}, SERVE),
    ("apps/ReplicaSet", {"template": POD}, "ReplicaSet", {}, SERVE),
    ("apps/Deployment", {"template": POD}, "ReplicaSet", REVISION, SERVE),
    ("apps/StatefulSet", {"template": POD}, "StatefulSet", {"statefulset.kubernetes.io/pod-name": "t-0"}, SERVE),
    ("apps/DaemonSet", {"template": POD}, "DaemonSet", {"controller-revision-hash": "5d8f"}, SERVE),
    ("batch/Job", {"template": POD}, "Job", JOB, TRAIN),
    ("batch/CronJob", {"jobTemplate": {"spec": {"template": POD}}}, "Job", JOB, TRAIN),
    ("kubeflow.org/PyTorchJob", {"pytorchReplicaSpecs": REPLICAS}, "PyTorchJob", KUBEFLOW, TRAIN),
    ("kubeflow.org/MPIJob", {"mpiReplicaSpecs": REPLICAS}, "MPIJob", KUBEFLOW, TRAIN),
    ("kubeflow.org/MPIJob", {"mpiReplicaSpecs": {"Launcher": {"template": POD}}}, "Job", {**JOB, **KUBEFLOW}, TRAIN),
    ("kubeflow.org/TFJob", {"tfReplicaSpecs": REPLICAS}, "TFJob", KUBEFLOW, TRAIN),
    ("kubeflow.org/JAXJob", {"jaxReplicaSpecs": REPLICAS}, "JAXJob", KUBEFLOW, TRAIN),
    ("kubeflow.org/XGBoostJob", {"xgbReplicaSpecs": REPLICAS}, "XGBoostJob", KUBEFLOW, TRAIN),
    ("kubeflow.org/PaddleJob", {"paddleReplicaSpecs": REPLICAS}, "PaddleJob", KUBEFLOW, TRAIN),
    ("kubeflow.org/Notebook", {"template": POD}, "StatefulSet", {"notebook-name": "t", "statefulset": "t"}, DEVELOP),
    ("jobset.x-k8s.io/JobSet", JOBSET_SPEC, "Job", JOBSET, TRAIN),
    ("trainer.kubeflow.org/TrainJob", {"trainer": {"resourcesPerNode": {}}}, "Job", JOBSET, TRAIN),
    ("trainer.kubeflow.org/TrainingRuntime", {"template": {"spec": JOBSET_SPEC}}, "Job", JOBSET, TRAIN),
    ("ray.io/RayCluster", RAY_SPEC, "RayCluster", RAY, TRAIN),
    ("ray.io/RayJob", {"rayClusterSpec": RAY_SPEC}, "RayCluster", RAY, TRAIN),
    ("ray.io/RayService", {"rayClusterConfig": RAY_SPEC}, "RayCluster", {**RAY, "ray.io/serve": "true"}, SERVE),
    ("ray.io/RayService", {"rayClusterConfig": RAY_SPEC}, "RayCluster", {**RAY, "ray.io/serve": "false"}, SERVE),
    ("leaderworkerset.x-k8s.io/LeaderWorkerSet", {"leaderWorkerTemplate": {"leaderTemplate": POD, "workerTemplate": POD}},
     "StatefulSet", LWS, ("service", True)),
    ("batch.volcano.sh/Job", {"tasks": [{"template": POD}]}, "Job", {"volcano.sh/job-name": "t"}, TRAIN),
    ("elastic.iml.github.io/ElasticJob", {"replicaSpecs": REPLICAS}, None,
     {"app": "dlrover", "elasticjob.dlrover/name": "t", "elasticjob.dlrover/replica-type": "worker"}, TRAIN),
    ("sagemaker.amazonaws.com/HyperPodPyTorchJob", {"replicaSpecs": [{"template": POD}]}, "HyperPodPyTorchJob", {}, TRAIN),
    ("argoproj.io/Rollout", {"template": POD}, "ReplicaSet", {"rollouts-pod-template-hash": "5d8f"}, SERVE),
    ("serving.knative.dev/Service", {"template": POD}, "ReplicaSet", KNATIVE, SERVE),
    ("serving.kserve.io/InferenceService", {"predictor": SPEC, "transformer": SPEC}, "ReplicaSet", KSERVE, SERVE),
    ("serving.kserve.io/LLMInferenceService", {"template": SPEC}, "ReplicaSet", REVISION, SERVE),
    ("serving.kserve.io/LLMInferenceService", {"worker": SPEC}, "StatefulSet", LWS, ("service", True)),
    ("ome.io/InferenceService", {"engine": SPEC}, "ReplicaSet", REVISION, SERVE),
    ("ome.io/InferenceService", {"decoder": {"leader": SPEC}}, "StatefulSet", LWS, ("service", True)),
    ("grove.io/PodCliqueSet", {"template": {"cliques": [{"spec": {"podSpec": SPEC}}]}}, "PodClique", {}, SERVE),
]  # fmt: skip
WITHOUT_TEMPLATES: list[tuple[str, str, dict[str, str], tuple[str, bool]]] = [
    ("kubeflow.org/Workspace", "StatefulSet", {"notebooks.kubeflow.org/workspace-name": "t"}, DEVELOP),
    ("workload.codeflare.dev/AppWrapper", "AppWrapper", {}, ("training", False)),
    ("grove.io/PodClique", "PodClique", {}, SERVE),
    ("kubevirt.io/VirtualMachineInstance", "VirtualMachineInstance", {"kubevirt.io": "virt-launcher"}, SERVE),
]


def judged(pod: Pod) -> tuple[str, bool]:
    """The class of a pod, and whether it is in a gang."""
    return SHIPPED.classify(pod, owner(pod), "team-a").name, gang_size(AskedPod(pod, GPUS), GANGS) > 0


def created(controller: str | None, labels: dict[str, str]) -> Pod:
    references = [{"kind": controller, "name": "t", "uid": "u", "controller": True}] if controller else []
    return {"metadata": {"labels": labels, "ownerReferences": references}, "spec": SPEC}


@pytest.mark.parametrize(("name", "spec", "controller", "labels", "want"), CASES, ids=[case[0] for case in CASES])
def test_a_template_is_judged_as_its_pods_are(
    name: str, spec: dict[str, Any], controller: str | None, labels: dict[str, str], want: tuple[str, bool]
) -> None:
    group, kind = name.split("/")
    settings = SHIPPED.file.profiles["default"].templates
    found = [
        t
        for t in templates({"metadata": {"name": "t"}, "spec": spec}, group, kind, settings)
        if t.pod["spec"]["containers"]
    ]
    assert [judged(template.pod) for template in found] == [want] * len(found) != []
    assert judged(created(controller, labels)) == want


@pytest.mark.parametrize(("name", "controller", "labels", "want"), WITHOUT_TEMPLATES)
def test_pods_without_a_template_that_is_read(
    name: str, controller: str, labels: dict[str, str], want: tuple[str, bool]
) -> None:
    assert judged(created(controller, labels)) == want


@pytest.mark.parametrize(
    ("controller", "restart", "want"),
    [
        pytest.param("CloneSet", "Always", "service", id="OpenKruise's Deployment"),
        pytest.param("NodeSet", "Always", "service", id="Slurm by Slinky"),
        pytest.param("InferenceReplica", "Always", "service", id="OME"),
        pytest.param("Pod", "Never", "training", id="an executor of Spark, whose driver made it"),
        pytest.param("Workflow", "Never", "training", id="a step of Argo Workflows"),
        pytest.param("TaskRun", "Never", "training", id="a task of Tekton"),
        pytest.param(
            "VirtualMachineInstance",
            "Never",
            "service",
            id="a machine of KubeVirt, which runs until it is switched off",
        ),
        pytest.param("EphemeralRunner", "OnFailure", "training", id="pods that end when they succeed"),
        pytest.param(None, "Always", "development", id="no controller"),
        pytest.param(None, "Never", "development", id="no controller, and it finishes"),
    ],
)
def test_pods_of_other_controllers_run_on_or_finish(controller: str | None, restart: str, want: str) -> None:
    """A guess that is too low would let each of them wait behind the pods of all known kinds."""
    pod = created(controller, {})
    pod["spec"] = {**SPEC, "restartPolicy": restart}
    assert judged(pod) == (want, False)


def test_every_kind_of_the_table_is_here() -> None:
    from webhook.kube.workload_kinds import WORKLOAD_KINDS

    assert {f"{row.group}/{row.kind}" for row in WORKLOAD_KINDS} == {case[0] for case in (*CASES, *WITHOUT_TEMPLATES)}


def test_every_path_of_the_table_is_here() -> None:
    """Written with a pod at each place, so that a path with a slip finds nothing."""
    from webhook.kube.workload_kinds import WORKLOAD_KINDS

    for row in WORKLOAD_KINDS:
        for path in row.paths:
            obj: dict[str, Any] = {"metadata": {"name": "t"}}
            here = obj
            for step in path.split("."):
                here = here.setdefault("x" if step == "*" else step, {})
            here.update(SPEC if row.holds == "podSpec" else POD)
            found = templates(obj, row.group, row.kind, SHIPPED.file.profiles["default"].templates)
            assert any(at(obj, template.path) is here for template in found), path


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_a_label_of_another_controller_changes_no_class(kind: str) -> None:
    """The label `ray.io/serve` means something in pods of a RayCluster only: any author may write it."""
    pod = created(kind, {"ray.io/serve": "true", "jobset.sigs.k8s.io/jobset-uid": "u"})
    assert judged(pod) == judged(created(kind, {}))


@pytest.mark.parametrize(
    ("group", "kind", "spec", "want"),
    [
        ("kubeflow.org", "Notebook", {"template": POD}, "inference"),
        ("serving.kserve.io", "InferenceService", {"predictor": SPEC}, "inference"),
        ("apps", "Deployment", {"template": POD}, "service"),
    ],
)
def test_pods_of_some_kinds_get_the_labels_of_the_object(
    group: str, kind: str, spec: dict[str, Any], want: str
) -> None:
    obj = {"metadata": {"name": "t", "labels": {"workload-type": "inference"}}, "spec": spec}
    (template,) = templates(obj, group, kind, SHIPPED.file.profiles["default"].templates)
    assert judged(template.pod)[0] == want


def test_the_labels_of_the_template_come_before_those_of_the_object() -> None:
    obj = {
        "metadata": {"name": "t", "labels": {"a": "object", "b": "object"}},
        "spec": {"predictor": {**SPEC, "labels": {"a": "template"}}},
    }
    (template,) = templates(obj, "serving.kserve.io", "InferenceService", SHIPPED.file.profiles["default"].templates)
    assert labels_of(template.pod) == {"a": "template", "b": "object"}
