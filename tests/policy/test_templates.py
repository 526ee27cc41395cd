"""Pod templates in workloads, and the pods that will be created from them."""

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


NONE = {
    "an object created by a controller, whose owner was checked": (
        workload("ReplicaSet", ownerReferences=[{"kind": "Deployment", "name": "app", "controller": True}]),
        "apps",
    ),
    "a kind without templates": (workload("ConfigMap"), ""),
    "a kind of the same name in another group": (workload(), "example.com"),
    "no spec": ({"kind": "Deployment", "metadata": {"name": "app"}}, "apps"),
    "no metadata": ({"kind": "Deployment", "spec": {"template": POD}}, "apps"),
    "a template without a spec": (workload(spec={"template": {"metadata": {}}}), "apps"),
    "a custom resource of a kind that the policy does not name": (workload("SparkJob"), "kubeflow.org"),
    "a custom resource without what its path leads to": (workload("PyTorchJob", spec={"other": 1}), "kubeflow.org"),
}


@pytest.mark.parametrize(("obj", "group"), NONE.values(), ids=NONE)
def test_there_is_no_template_in(obj: dict[str, Any], group: str) -> None:
    assert found(obj, group, obj["kind"]) == []


def test_a_workload_whose_owner_is_not_its_controller_has_a_template() -> None:
    assert found(workload(ownerReferences=[{"kind": "App", "name": "app", "controller": False}]), "apps", "Deployment")


KINDS = [
    ("apps", "Deployment", {"replicas": 3, "template": POD}, "spec.template.", "ReplicaSet", 3),
    ("apps", "ReplicaSet", {"replicas": 2, "template": POD}, "spec.template.", "ReplicaSet", 2),
    ("apps", "StatefulSet", {"replicas": 0, "template": POD}, "spec.template.", "StatefulSet", 0),
    ("apps", "DaemonSet", {"template": POD}, "spec.template.", "DaemonSet", None),
    ("", "ReplicationController", {"template": POD}, "spec.template.", "ReplicationController", 1),
    ("batch", "Job", {"parallelism": 8, "template": POD}, "spec.template.", "Job", 8),
    ("batch", "CronJob", {"jobTemplate": {"spec": {"template": POD}}}, "spec.jobTemplate.spec.template.", "Job", 1),
]  # fmt: skip


@pytest.mark.parametrize(("group", "kind", "spec", "field", "maker", "replicas"), KINDS, ids=[k[1] for k in KINDS])
def test_the_template_of_every_built_in_kind_is_found(
    group: str, kind: str, spec: dict[str, Any], field: str, maker: str, replicas: int | None
) -> None:
    (template,) = found(workload(kind, spec), group, kind)
    assert (template.field("spec"), template.replicas, owner(template)) == (f"{field}spec", replicas, (maker, "app"))
    assert template.creator.startswith("system:serviceaccount:kube-system:")
    assert template.pod["metadata"]["generateName"] == "app-"
    assert template.pod["metadata"]["labels"] == {"app": "a"}
    assert template.pod["spec"] is POD["spec"]


def test_a_custom_resource_has_a_template_for_each_entry_of_a_map_in_the_order_of_their_names() -> None:
    replicas = {"Worker": {"replicas": 4, "template": POD}, "Master": {"template": POD}}
    first, second = found(workload("PyTorchJob", {"pytorchReplicaSpecs": replicas}), "kubeflow.org", "PyTorchJob")
    assert [t.field("spec") for t in (first, second)] == [
        "spec.pytorchReplicaSpecs.Master.template.spec",
        "spec.pytorchReplicaSpecs.Worker.template.spec",
    ]
    assert [t.replicas for t in (first, second)] == [1, 4]
    assert owner(first) == ("PyTorchJob", "app")
    assert first.creator == "", "who creates the pods of a custom resource is not known"


def test_a_custom_resource_has_a_template_for_each_entry_of_a_list() -> None:
    groups = [{"replicas": 2, "template": POD}, "no map", {"template": POD}]
    made = found(workload("RayCluster", {"workerGroupSpecs": groups}), "ray.io", "RayCluster")
    assert [t.field("spec") for t in made] == [
        "spec.workerGroupSpecs[0].template.spec",
        "spec.workerGroupSpecs[2].template.spec",
    ]


def test_the_policy_says_who_owns_the_pods_of_a_custom_resource() -> None:
    jobs = [{"replicas": 2, "template": {"spec": {"parallelism": 4, "template": POD}}}]
    (template,) = found(workload("JobSet", {"replicatedJobs": jobs}), "jobset.x-k8s.io", "JobSet")
    assert owner(template) == ("Job", "app")


RAY = {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"replicas": 2, "template": POD}]}
GPU_FIELD = "spec.containers[0].resources.limits"
SPEC = POD["spec"]
CUSTOM = [
    ("ray.io", "RayCluster", RAY, "RayCluster", ["spec.headGroupSpec.template.", "spec.workerGroupSpecs[0].template."]),
    ("ray.io", "RayJob", {"rayClusterSpec": RAY}, "RayCluster",
     ["spec.rayClusterSpec.headGroupSpec.template.", "spec.rayClusterSpec.workerGroupSpecs[0].template."]),
    ("ray.io", "RayService", {"rayClusterConfig": RAY}, "RayService",
     ["spec.rayClusterConfig.headGroupSpec.template.", "spec.rayClusterConfig.workerGroupSpecs[0].template."]),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet",
     {"leaderWorkerTemplate": {"leaderTemplate": POD, "workerTemplate": POD, "size": 4}}, "LeaderWorkerSet",
     ["spec.leaderWorkerTemplate.leaderTemplate.", "spec.leaderWorkerTemplate.workerTemplate."]),
    ("batch.volcano.sh", "Job", {"tasks": [{"replicas": 2, "template": POD}]}, "Job", ["spec.tasks[0].template."]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("group", "kind", "spec", "owned_by", "places"), CUSTOM, ids=[c[1] + " of " + c[0] for c in CUSTOM]
)
def test_templates_of_heads_and_leaders_are_found(
    group: str, kind: str, spec: dict[str, Any], owned_by: str, places: list[str]
) -> None:
    made = found(workload(kind, spec), group, kind)
    assert [t.field(GPU_FIELD) for t in made] == [place + GPU_FIELD for place in places]
    assert {owner(t)[0] for t in made} == {owned_by}


ASKED = container()["resources"]
PARTS = [
    ("trainer.kubeflow.org", "TrainJob", {"trainer": {"numNodes": 2, "image": "a", "resourcesPerNode": ASKED}},
     "Job", "spec.trainer.resourcesPerNode.limits"),
    ("serving.kserve.io", "InferenceService", {"predictor": {"nodeSelector": {"a": "b"}, "model": {"resources": ASKED}}},
     "ReplicaSet", "spec.predictor.model.resources.limits"),
    ("serving.kserve.io", "InferenceService", {"predictor": SPEC}, "ReplicaSet", f"spec.predictor.{GPU_FIELD[5:]}"),
    ("serving.kserve.io", "LLMInferenceService", {"template": SPEC}, "ReplicaSet", f"spec.template.{GPU_FIELD[5:]}"),
    ("ome.io", "InferenceService", {"model": {"name": "m"}, "engine": {"minReplicas": 1, "runner": {"resources": ASKED}}},
     "ReplicaSet", "spec.engine.runner.resources.limits"),
    ("ome.io", "InferenceService", {"decoder": SPEC}, "ReplicaSet", f"spec.decoder.{GPU_FIELD[5:]}"),
    ("ome.io", "InferenceService", {"router": {"runner": {"resources": ASKED}}}, "ReplicaSet",
     "spec.router.runner.resources.limits"),
    ("ome.io", "InferenceService", {"predictor": {"model": {"baseModel": "m", "resources": ASKED}}}, "ReplicaSet",
     "spec.predictor.model.resources.limits"),
    ("grove.io", "PodCliqueSet", {"template": {"cliques": [{"name": "p", "spec": {"replicas": 2, "podSpec": SPEC}}]}},
     "PodClique", f"spec.template.cliques[0].spec.podSpec.{GPU_FIELD[5:]}"),
]  # fmt: skip


@pytest.mark.parametrize(("group", "kind", "spec", "owned_by", "field"), PARTS, ids=[f"{p[1]}: {p[4]}" for p in PARTS])
def test_a_part_of_a_template_is_read_as_a_whole_one_and_findings_name_the_fields_of_the_object(
    group: str, kind: str, spec: dict[str, Any], owned_by: str, field: str
) -> None:
    (template,) = found(workload(kind, spec), group, kind)
    (main,) = template.pod["spec"]["containers"]
    assert main["resources"] == ASKED
    assert (owner(template)[0], template.field(GPU_FIELD)) == (owned_by, field)


def test_the_leader_and_the_workers_of_an_inference_service_of_ome_are_found() -> None:
    asked = {"runner": {"resources": ASKED}}
    spec = {part: {"leader": asked, "worker": {"size": 3, **asked}} for part in ("engine", "decoder")}
    made = found(workload("InferenceService", spec), "ome.io", "InferenceService")
    fields = [t.field(GPU_FIELD) for t in made if t.pod["spec"]["containers"]]
    parts = [f"spec.{part}.{role}" for part in ("engine", "decoder") for role in ("leader", "worker")]
    assert fields == [f"{part}.runner.resources.limits" for part in parts]


def test_of_a_thousand_entries_one_more_than_the_limit_is_found() -> None:
    groups = [{"template": POD}] * 1000
    made = workload("RayCluster", {"workerGroupSpecs": groups})
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


def test_the_head_of_ray_is_one_pod_and_a_replica_of_its_workers_may_be_several() -> None:
    groups = [{"replicas": 2, "numOfHosts": 4, "template": POD}, {"template": POD}]
    spec = {"headGroupSpec": {"template": POD}, "workerGroupSpecs": groups}
    assert [t.replicas for t in found(workload("RayCluster", spec), "ray.io", "RayCluster")] == [1, 8, None]
