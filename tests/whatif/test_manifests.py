"""The pods that manifests would create."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.objects import deployment, job, pod, workload
from webhook.errors import BadInput
from webhook.kube.pod import PREFERRED, REQUIRED
from webhook.whatif.manifests import Planned, planned_in, texts_of
from webhook.whatif.offline import load_policy


def found(*objects: Any) -> list[Planned | BadInput]:
    return list(planned_in(yaml.safe_dump_all(objects).encode(), "all.yaml", load_policy(), "team"))


def test_bare_pods_and_pods_of_workloads() -> None:
    made = found(
        pod("one", 1),
        deployment("chat", 3),
        job("train", 2),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}},
    )
    assert [(each.of, each.replicas) for each in made if isinstance(each, Planned)] == [
        ("pod/one", 1),
        ("deployment/chat", 3),
        ("job/train", 2),
    ]
    assert len(made) == 3, "a Service creates no pods"


def test_of_several_templates_each_says_which_it_is() -> None:
    template, many = {"template": pod("one", 1)}, {"replicas": 2, "template": pod("one", 1)}
    ray = {"headGroupSpec": template, "workerGroupSpecs": [many, template]}
    made = found(
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}, "spec": ray},
        {**job("train"), "metadata": {"generateName": "train-"}},
    )
    assert [(each.of, each.template, each.replicas) for each in made if isinstance(each, Planned)] == [
        ("raycluster/r", "spec.headGroupSpec", 1),
        ("raycluster/r", "spec.workerGroupSpecs[0]", 2),
        ("raycluster/r", "spec.workerGroupSpecs[1]", None),
        ("job/train-", "", 1),
    ]


def test_a_pod_of_a_template_is_as_its_controller_creates_it() -> None:
    (made,) = found(deployment("chat", 1))
    assert isinstance(made, Planned)
    request = made.document.request
    assert (request.kind, request.resource, request.namespace, request.generated) == ("Pod", "pods", "team", "chat-")
    assert request.user == "system:serviceaccount:kube-system:replicaset-controller"
    body = request.object
    assert body is not None
    assert body["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert made.document.plain, "the API server has not stored it"
    assert body["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("Deployment", "pod-template-hash"),
        ("StatefulSet", "controller-revision-hash"),
        ("Job", "batch.kubernetes.io/controller-uid"),
        ("ReplicaSet", ""),
        ("DaemonSet", ""),
    ],
)
def test_a_pod_of_a_template_has_the_label_of_its_revision(kind: str, label: str) -> None:
    """By which its replicas are spread. Two workloads have two revisions, whatever else they have in common."""
    planned = found(*[workload(kind, name, of={}) for name in ("a", "b")])
    labels = [one.document.request.object["metadata"]["labels"] for one in planned if isinstance(one, Planned)]  # type: ignore[index]
    assert {key for each in labels for key in each} - {"app"} == ({label} - {""})
    assert len({each.get(label) for each in labels}) == (2 if label else 1)


def test_a_namespace_in_the_manifest_is_kept() -> None:
    one = pod("one", 1)
    one["metadata"]["namespace"] = "other"
    assert [each.document.request.namespace for each in found(one, pod("two", 1)) if isinstance(each, Planned)] == [
        "other",
        "team",
    ]


def test_all_manifests_of_a_folder_are_read(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "notes.txt"):
        (tmp_path / name).write_text(name)
    assert [text for _, text in texts_of([str(tmp_path)])] == [b"a.yml", b"b.yaml", b"c.json"]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        pytest.param(("containers",), 3, "spec.containers: wanted a list, saw a number", id="containers are a number"),
        pytest.param(("containers", 0, "resources"), "1", "spec.containers[0].resources: wanted a map, saw a string", id="resources are a string"),
        pytest.param(("containers", 0, "resources", "limits"), -1, "spec.containers[0].resources.limits: wanted a map, saw a number", id="limits are a number"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_a_malformed_pod_or_template_is_an_error_in_its_place(
    kind: str, path: tuple[Any, ...], value: Any, said: str
) -> None:
    made = pod("one", 1) if kind == "Pod" else deployment("chat", 2)
    at = made["spec"] if kind == "Pod" else made["spec"]["template"]["spec"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    first, second = found(made, pod("two", 1))
    assert isinstance(first, BadInput)
    assert str(first).endswith(f"document 1: {said}")
    assert isinstance(second, Planned)


TERMS = "spec.affinity.podAntiAffinity"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]}, "spec.topologySpreadConstraints[0].whenUnsatisfiable"),
        ({"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}}, f"{TERMS}.{REQUIRED}[0].topologyKey"),
        ({"affinity": {"podAntiAffinity": {PREFERRED: [{}]}}}, f"{TERMS}.{PREFERRED}[0].podAffinityTerm"),
        ({"affinity": {"podAntiAffinity": {PREFERRED: [{"podAffinityTerm": None}]}}}, f"{TERMS}.{PREFERRED}[0].podAffinityTerm.topologyKey"),
        ({"affinity": {"podAntiAffinity": {PREFERRED: [{"podAffinityTerm": {}}]}}}, f"{TERMS}.{PREFERRED}[0].podAffinityTerm.topologyKey"),
    ],
)  # fmt: skip
def test_a_pod_that_the_api_server_would_refuse_for_a_missing_field_is_an_error(
    spec: dict[str, Any], said: str
) -> None:
    """Without the field nothing says where such a pod may go."""
    made = pod("one", 1)
    made["spec"] |= spec
    bare, whole = found(made, {**deployment("chat", 1), "spec": {"template": made}})
    assert str(bare) == f"all.yaml: document 1: {said} is missing: the API server refuses such a pod"
    assert f": spec.template.{said} is missing" in str(whole)
