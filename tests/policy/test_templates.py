"""Pod templates in workloads, and the pods that will be created from them: which, whose, and how many."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import container
from webhook.kube.bounds import LIMITS
from webhook.policy.templates import Template, Templates, templates

SETTINGS = Templates()
POD = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container()]}}


def workload(kind: str = "Deployment", spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "app", **metadata}, "spec": {"template": POD} if spec is None else spec}


def found(obj: dict[str, Any], group: str, kind: str, settings: Templates = SETTINGS) -> list[Template]:
    return list(templates(obj, group, kind, settings))


def owner(template: Template) -> tuple[str, str]:
    (reference,) = template.pod["metadata"]["ownerReferences"]
    assert reference["controller"]
    return reference["kind"], reference["name"]


NONE = [
    pytest.param(
        workload("ReplicaSet", ownerReferences=[{"kind": "Deployment", "name": "app", "controller": True}]),
        "apps",
        id="an object created by a controller, whose owner was checked",
    ),
    pytest.param(workload("ConfigMap"), "", id="a kind without templates"),
    pytest.param(workload(), "example.com", id="a kind of the same name in another group"),
    pytest.param({"kind": "Deployment", "metadata": {"name": "app"}}, "apps", id="no spec"),
    pytest.param({"kind": "Deployment", "spec": {"template": POD}}, "apps", id="no metadata"),
    pytest.param(workload(spec={"template": {"metadata": {}}}), "apps", id="a template without a spec"),
    pytest.param(workload("SparkJob"), "kubeflow.org", id="a custom resource of a kind that the policy does not name"),
    pytest.param(
        workload("PyTorchJob", spec={"other": 1}), "kubeflow.org", id="a custom resource without what its path leads to"
    ),
]


@pytest.mark.parametrize(("obj", "group"), NONE)
def test_there_is_no_template_in(obj: dict[str, Any], group: str) -> None:
    assert found(obj, group, obj["kind"]) == []


def test_a_workload_whose_owner_is_not_its_controller_has_a_template() -> None:
    assert found(workload(ownerReferences=[{"kind": "App", "name": "app", "controller": False}]), "apps", "Deployment")


JOB = {"parallelism": 2, "completions": 8, "template": POD}
RAY = {
    "headGroupSpec": {"template": POD},
    "workerGroupSpecs": [
        {"replicas": 2, "numOfHosts": 4, "minReplicas": 0, "template": POD},
        "no map",
        {"template": POD},
    ],
}
RAY_PLACES = {"headGroupSpec.template.": 1, "workerGroupSpecs[0].template.": 8, "workerGroupSpecs[2].template.": None}
REPLICAS = {"Worker": {"replicas": 3, "template": POD}, "Master": {"replicas": 1, "template": POD}}
LEADER = {"size": 4, "leaderTemplate": POD, "workerTemplate": POD}
WHOLE: list[tuple[str, str, dict[str, Any], str, dict[str, int | None]]] = [
    ("apps", "Deployment", {"template": POD}, "ReplicaSet", {"spec.template.": 1}),
    ("apps", "Deployment", {"replicas": "x", "template": POD}, "ReplicaSet", {"spec.template.": 1}),
    ("apps", "ReplicaSet", {"replicas": 3, "template": POD}, "ReplicaSet", {"spec.template.": 3}),
    ("apps", "StatefulSet", {"replicas": 0, "template": POD}, "StatefulSet", {"spec.template.": 0}),
    ("apps", "DaemonSet", {"template": POD}, "DaemonSet", {"spec.template.": None}),
    ("", "ReplicationController", {"template": POD}, "ReplicationController", {"spec.template.": 1}),
    ("batch", "Job", JOB, "Job", {"spec.template.": 2}),
    ("batch", "Job", {"parallelism": 9, "completions": 4, "template": POD}, "Job", {"spec.template.": 4}),
    ("batch", "CronJob", {"jobTemplate": {"spec": JOB}}, "Job", {"spec.jobTemplate.spec.template.": 2}),
    ("kubeflow.org", "PyTorchJob", {"pytorchReplicaSpecs": REPLICAS}, "PyTorchJob",
     {"spec.pytorchReplicaSpecs.Master.template.": 1, "spec.pytorchReplicaSpecs.Worker.template.": 3}),
    ("jobset.x-k8s.io", "JobSet", {"replicatedJobs": [{"replicas": 4, "template": {"spec": JOB}}]}, "Job",
     {"spec.replicatedJobs[0].template.spec.template.": 8}),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet",
     {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": POD}}, "StatefulSet",
     {"spec.leaderWorkerTemplate.workerTemplate.": 8}),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": LEADER}, "StatefulSet",
     {"spec.leaderWorkerTemplate.leaderTemplate.": 2, "spec.leaderWorkerTemplate.workerTemplate.": 6}),
    ("ray.io", "RayCluster", RAY, "RayCluster", {f"spec.{place}": count for place, count in RAY_PLACES.items()}),
    ("ray.io", "RayJob", {"rayClusterSpec": RAY}, "RayCluster",
     {f"spec.rayClusterSpec.{place}": count for place, count in RAY_PLACES.items()}),
    ("ray.io", "RayService", {"rayClusterConfig": RAY}, "RayCluster",
     {f"spec.rayClusterConfig.{place}": count for place, count in RAY_PLACES.items()}),
    ("batch.volcano.sh", "Job", {"tasks": [{"replicas": 2, "template": POD}]}, "Job", {"spec.tasks[0].template.": 2}),
    ("kubeflow.org", "Notebook", {"template": POD}, "StatefulSet", {"spec.template.": 1}),
    ("argoproj.io", "Rollout", {"replicas": 3, "template": POD}, "ReplicaSet", {"spec.template.": 3}),
    ("serving.knative.dev", "Service", {"template": POD}, "ReplicaSet", {"spec.template.": 1}),
    ("elastic.iml.github.io", "ElasticJob", {"replicaSpecs": {"worker": {"replicas": 4, "template": POD}}}, "ElasticJob",
     {"spec.replicaSpecs.worker.template.": 4}),
    ("sagemaker.amazonaws.com", "HyperPodPyTorchJob", {"replicaSpecs": [{"replicas": 4, "template": POD}]},
     "HyperPodPyTorchJob", {"spec.replicaSpecs[0].template.": 4}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "kind", "spec", "owned_by", "places"), WHOLE, ids=[f"{w[1]} of {w[0]}" for w in WHOLE]
)
def test_every_template_is_found_with_its_owner_and_the_number_of_its_pods(
    group: str, kind: str, spec: dict[str, Any], owned_by: str, places: dict[str, int | None]
) -> None:
    made = found(workload(kind, spec), group, kind)
    assert [(t.field("spec"), t.replicas) for t in made] == [(f"{place}spec", count) for place, count in places.items()]
    assert {owner(t) for t in made} == {(owned_by, "app")}
    for template in made:
        built_in = group in ("", "apps", "batch")
        assert template.creator.startswith("system:serviceaccount:kube-system:") is built_in, (
            "who creates the others is not known"
        )
        assert template.pod["metadata"]["generateName"] == "app-"
        assert template.pod["metadata"]["labels"].items() >= {"app": "a"}.items()
        assert template.pod["spec"] is POD["spec"]


GPU_FIELD = "spec.containers[0].resources.limits"
SPEC = POD["spec"]
ASKED = container()["resources"]
PARTS = [
    ("trainer.kubeflow.org", "TrainJob", {"trainer": {"numNodes": 2, "image": "a", "resourcesPerNode": ASKED}},
     "Job", "spec.trainer.resourcesPerNode.limits", 2),
    ("serving.kserve.io", "InferenceService", {"predictor": {"minReplicas": 2, "model": {"resources": ASKED}}},
     "ReplicaSet", "spec.predictor.model.resources.limits", 2),
    ("serving.kserve.io", "InferenceService", {"predictor": SPEC}, "ReplicaSet", f"spec.predictor.{GPU_FIELD[5:]}", 1),
    ("serving.kserve.io", "LLMInferenceService", {"template": SPEC}, "ReplicaSet", f"spec.template.{GPU_FIELD[5:]}", 1),
    ("serving.kserve.io", "LLMInferenceService", {"prefill": {"replicas": 2, "worker": SPEC}}, "StatefulSet",
     f"spec.prefill.worker.{GPU_FIELD[5:]}", 2),
    ("ome.io", "InferenceService", {"model": {"name": "m"}, "engine": {"runner": {"resources": ASKED}}},
     "ReplicaSet", "spec.engine.runner.resources.limits", 1),
    ("ome.io", "InferenceService", {"decoder": SPEC}, "ReplicaSet", f"spec.decoder.{GPU_FIELD[5:]}", 1),
    ("ome.io", "InferenceService", {"router": {"runner": {"resources": ASKED}}}, "ReplicaSet",
     "spec.router.runner.resources.limits", 1),
    ("grove.io", "PodCliqueSet", {"template": {"cliques": [{"name": "p", "spec": {"replicas": 2, "podSpec": SPEC}}]}},
     "PodClique", f"spec.template.cliques[0].spec.podSpec.{GPU_FIELD[5:]}", 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "kind", "spec", "owned_by", "field", "count"), PARTS, ids=[f"{p[1]}: {p[4]}" for p in PARTS]
)
def test_a_part_of_a_template_is_read_as_a_whole_one_and_findings_name_the_fields_of_the_object(
    group: str, kind: str, spec: dict[str, Any], owned_by: str, field: str, count: int
) -> None:
    (template,) = found(workload(kind, spec), group, kind)
    (main,) = template.pod["spec"]["containers"]
    assert main["resources"] == ASKED
    assert (owner(template)[0], template.field(GPU_FIELD), template.replicas) == (owned_by, field, count)


def test_the_leader_and_the_workers_of_an_inference_service_of_ome_are_found() -> None:
    asked = {"runner": {"resources": ASKED}}
    spec = {part: {"leader": asked, "worker": {"size": 3, **asked}} for part in ("engine", "decoder")}
    made = found(workload("InferenceService", spec), "ome.io", "InferenceService")
    fields = [t.field(GPU_FIELD) for t in made if t.pod["spec"]["containers"]]
    parts = [f"spec.{part}.{role}" for part in ("engine", "decoder") for role in ("leader", "worker")]
    assert fields == [f"{part}.runner.resources.limits" for part in parts]


def test_the_workers_of_an_inference_service_of_kserve_are_found_beside_its_first_pod() -> None:
    spec = {"predictor": {"model": {"resources": ASKED}, "workerSpec": SPEC}}
    made = found(workload("InferenceService", spec), "serving.kserve.io", "InferenceService")
    fields = [t.field(GPU_FIELD) for t in made]
    assert fields == ["spec.predictor.model.resources.limits", f"spec.predictor.workerSpec.{GPU_FIELD[5:]}"]


def test_of_a_thousand_entries_one_more_than_the_limit_is_found() -> None:
    made = workload("RayCluster", {"workerGroupSpecs": [{"template": POD}] * 1000})
    assert len(found(made, "ray.io", "RayCluster")) == LIMITS["templates"] + 1


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["spec", "template", "metadata", "replicas", "jobTemplate", "workerGroupSpecs",
                 "replicatedJobs", "pytorchReplicaSpecs", "name", "ownerReferences", "volumes", "x"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)  # fmt: skip


@given(
    st.fixed_dictionaries({"metadata": JSON, "spec": JSON}),
    st.sampled_from(
        [("apps", "StatefulSet"), ("batch", "CronJob"), ("ray.io", "RayCluster"), ("kubeflow.org", "PyTorchJob")]
    ),
)
def test_no_object_makes_the_search_for_templates_fail(obj: dict[str, Any], kind: tuple[str, str]) -> None:
    for template in found(obj, *kind):
        assert isinstance(template.pod["spec"], dict)
        assert template.field("spec.a").endswith(".a")
