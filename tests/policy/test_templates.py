"""Where the pod templates of workloads stand, and the pods that will come of them."""

from __future__ import annotations

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
    "an object made by a controller: whoever wrote its template was told": (
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


KINDS = [
    ("apps", "Deployment", {"replicas": 3, "template": POD}, "spec.template.", "ReplicaSet", 3),
    ("apps", "ReplicaSet", {"replicas": 2, "template": POD}, "spec.template.", "ReplicaSet", 2),
    ("apps", "StatefulSet", {"replicas": 0, "template": POD}, "spec.template.", "StatefulSet", 0),
    ("apps", "DaemonSet", {"template": POD}, "spec.template.", "DaemonSet", None),
    ("", "ReplicationController", {"template": POD}, "spec.template.", "ReplicationController", None),
    ("batch", "Job", {"parallelism": 8, "template": POD}, "spec.template.", "Job", 8),
    ("batch", "CronJob", {"jobTemplate": {"spec": {"template": POD}}}, "spec.jobTemplate.spec.template.", "Job", None),
]  # fmt: skip


@pytest.mark.parametrize(("group", "kind", "spec", "field", "maker", "replicas"), KINDS, ids=[k[1] for k in KINDS])
def test_the_template_of_every_built_in_kind_is_found(
    group: str, kind: str, spec: dict[str, Any], field: str, maker: str, replicas: int | None
) -> None:
    (template,) = found(workload(kind, spec), group, kind)
    assert (template.field, template.replicas, owner(template)) == (field, replicas, (maker, "app"))
    assert template.maker.startswith("system:serviceaccount:kube-system:")
    assert template.pod["metadata"]["generateName"] == "app-"
    assert template.pod["metadata"]["labels"] == {"app": "a"}
    assert template.pod["spec"] is POD["spec"]


def test_a_custom_resource_has_a_template_for_each_entry_of_a_map_in_the_order_of_their_names() -> None:
    replicas = {"Worker": {"replicas": 4, "template": POD}, "Master": {"template": POD}}
    first, second = found(workload("PyTorchJob", {"pytorchReplicaSpecs": replicas}), "kubeflow.org", "PyTorchJob")
    assert [t.field for t in (first, second)] == [
        "spec.pytorchReplicaSpecs.Master.template.",
        "spec.pytorchReplicaSpecs.Worker.template.",
    ]
    assert [t.replicas for t in (first, second)] == [None, 4]
    assert owner(first) == ("PyTorchJob", "app")
    assert first.maker == "", "who makes the pods of a custom resource is not known"


def test_a_custom_resource_has_a_template_for_each_entry_of_a_list() -> None:
    groups = [{"replicas": 2, "template": POD}, "no map", {"template": POD}]
    made = found(workload("RayCluster", {"workerGroupSpecs": groups}), "ray.io", "RayCluster")
    assert [t.field for t in made] == ["spec.workerGroupSpecs[0].template.", "spec.workerGroupSpecs[2].template."]


def test_the_policy_says_who_owns_the_pods_of_a_custom_resource() -> None:
    jobs = [{"replicas": 2, "template": {"spec": {"parallelism": 4, "template": POD}}}]
    (template,) = found(workload("JobSet", {"replicatedJobs": jobs}), "jobset.x-k8s.io", "JobSet")
    assert owner(template) == ("Job", "app")


def test_of_a_thousand_entries_one_more_is_found_than_may_be() -> None:
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
        assert template.field.endswith(".")
