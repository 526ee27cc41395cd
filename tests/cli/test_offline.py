"""Documents in files, and decisions on them without a server."""

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.builders import GPU, admission_review, container, pod
from tests.cluster.objects import free, node, state
from webhook.admission.response import warnings_of
from webhook.cli.offline import Document, decide_mutate, decide_validate, documents, load_policy, load_state, run
from webhook.cluster.state import ClusterState
from webhook.errors import BadInput, PolicyError
from webhook.kube.yaml import to_yaml

POLICY = load_policy()
POD = pod({"name": "main", "image": "app", "resources": {"limits": {GPU: 1}}})

NO_KIND = {"metadata": POD["metadata"], "spec": POD["spec"]}


def read(*values: Any, json: bool = False) -> list[Document | BadInput]:
    text = b"\n".join(map(orjson.dumps, values)) if json else "---\n".join(map(to_yaml, values)).encode()
    return list(documents(text, "f"))


def one(value: Any) -> Document:
    (found,) = read(value)
    assert isinstance(found, Document), found
    return found


# --- documents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("json", [False, True], ids=["YAML", "JSON"])
@pytest.mark.parametrize(
    ("values", "names"),
    [
        pytest.param([POD], ["trainer"], id="one pod"),
        pytest.param([POD, pod(name="b")], ["trainer", "b"], id="several documents"),
        pytest.param([{"kind": "List", "items": [POD, pod(name="b")]}], ["trainer", "b"], id="a list"),
        pytest.param([{"kind": "PodList", "items": [NO_KIND]}], ["trainer"], id="a list as the API gives it"),
        pytest.param([{"kind": "List", "items": []}, POD], ["trainer"], id="an empty list"),
        pytest.param([admission_review(POD), POD], ["trainer", "trainer"], id="a review and a pod"),
        pytest.param([{"kind": "List", "items": [admission_review(POD)]}], ["trainer"], id="a review in a list"),
    ],
)  # fmt: skip
def test_pods_are_found(values: list[Any], names: list[str], json: bool) -> None:
    found = read(*values, json=json)
    assert [
        d.request.object["metadata"]["name"] for d in found if isinstance(d, Document) and d.request.object
    ] == names
    assert [d.where for d in found if isinstance(d, Document)] == [f"f: document {i + 1}" for i in range(len(names))]


def test_a_pod_is_read_as_the_request_to_create_it_in_its_namespace() -> None:
    request = one(POD).request
    assert (request.operation, request.resource, request.namespace, request.dry_run) == (
        "CREATE",
        "pods",
        "team-a",
        False,
    )
    for metadata in ({}, {"namespace": ""}, {"namespace": None}):
        assert one({"kind": "Pod", "metadata": metadata, "spec": {}}).request.namespace == "default"


def test_a_review_is_read_as_its_request() -> None:
    request = one(admission_review(POD, operation="UPDATE", oldObject=POD, dryRun=True)).request
    assert (request.uid, request.operation, request.old, request.dry_run) == ("u-1", "UPDATE", POD, True)


WANTED = "wanted a Pod or an AdmissionReview, saw "


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"kind": "Service", "metadata": {}}, WANTED + 'kind "Service"', id="another kind"),
        pytest.param({"metadata": {}}, WANTED + "kind nothing", id="no kind"),
        pytest.param({"kind": ["Pod"]}, WANTED + "kind a list", id="a kind that is a list"),
        pytest.param([POD], WANTED + "a list", id="a list at the top"),
        pytest.param("text", WANTED + "a string", id="a string"),
        pytest.param(5, WANTED + "a number", id="a number"),
        pytest.param({"kind": "List", "items": ["x"]}, WANTED + "a string", id="a string in a List"),
        pytest.param({"kind": "List", "items": {}}, WANTED + 'kind "List"', id="a List whose items are a map"),
        pytest.param({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {}}, "request.uid: wanted 1 to 128 characters, saw 0", id="a malformed review"),
    ],
)  # fmt: skip
def test_another_document_than_a_pod_is_an_error_in_its_place(value: Any, message: str) -> None:
    first, error, last = read(POD, value, POD)
    assert isinstance(first, Document)
    assert isinstance(error, BadInput)
    assert isinstance(last, Document), "one bad document does not hide the others"
    assert str(error) == f"f: document 2: {message}"


@pytest.mark.parametrize("text", [b"", b"# nothing\n", b"---\n---\n", b'{"kind": "List", "items": []}'], ids=repr)
def test_a_file_without_documents_is_an_error(text: bytes) -> None:
    (error,) = documents(text, "f")
    assert str(error) == "f: no document in it: wanted pods or AdmissionReviews, as YAML or JSON"


@pytest.mark.parametrize("text", ["a: [", "\x00", '{"kind": "Pod"'], ids=repr)
def test_text_that_is_neither_yaml_nor_json_is_an_error(text: str) -> None:
    with pytest.raises(BadInput, match=r"^f: neither YAML nor JSON: ") as caught:
        list(documents(text, "f"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"kind": "Pod"}, "metadata: wanted a map, saw nothing", id="no metadata"),
        pytest.param({"kind": "Pod", "metadata": {}, "spec": []}, "spec: wanted a map, saw a list", id="no spec"),
        pytest.param(pod({"name": "a", "resources": {"limits": [GPU]}}), "spec.containers[0].resources.limits: wanted a map, saw a list", id="limits as a list"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("decide", [decide_mutate, decide_validate], ids=["mutate", "validate"])
def test_a_malformed_pod_is_an_error_with_its_place(value: Any, message: str, decide: Any) -> None:
    for written in (value, admission_review(value)):
        with pytest.raises(BadInput) as caught:
            run(one(written), decide, POLICY, load_state(None))
        assert str(caught.value) == f"f: document 1: {message}"


# --- decisions --------------------------------------------------------------------------------------------------------


def two_nodes() -> ClusterState:
    return state([node("gpu-a1", 2), node("gpu-a2", 2)])


def chosen(result: Any) -> str:
    terms = result.pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return str(terms[0]["preference"]["matchFields"][0]["values"][0])


def test_pods_are_decided_in_order_with_reservations_as_on_a_server() -> None:
    cluster = two_nodes()
    pods = [pod(container(gpu=1), name=f"p{i}", labels={"app": "a"}, owned_by="ReplicaSet") for i in range(4)]
    results = [run(one(p), decide_mutate, POLICY, cluster) for p in pods]
    assert sorted(map(chosen, results)) == ["gpu-a1", "gpu-a1", "gpu-a2", "gpu-a2"]
    assert free(cluster, "gpu-a1") == free(cluster, "gpu-a2") == 0
    # Reservations that the API server has not confirmed take no pod its last node.
    assert run(one(pod()), decide_mutate, POLICY, cluster).decision.outcomes["nodeAffinity"].result == "preferred"


def test_a_result_holds_the_changed_pod_the_decision_and_the_answer() -> None:
    document = one(POD)
    result = run(document, decide_mutate, POLICY, load_state(None))
    assert orjson.loads(document.original) == POD, "the document stays as it was read"
    assert result.pod["spec"]["containers"][0]["resources"] == {"limits": {GPU: 1}, "requests": {GPU: 1}}
    assert orjson.loads(result.answer)["response"]["patchType"] == "JSONPatch"
    assert result.decision.placement is not None
    assert result.decision.placement.reason == "cluster state is stale"


def test_a_dry_run_reserves_nothing() -> None:
    cluster = two_nodes()
    run(one(admission_review(POD, dryRun=True)), decide_mutate, POLICY, cluster)
    assert free(cluster, "gpu-a1") == 2


def test_a_pod_is_validated_as_the_mutating_hook_leaves_it_and_a_review_as_it_is() -> None:
    only_a_request = pod({"name": "a", "image": "b", "resources": {"requests": {GPU: 1}}})
    assert run(one(only_a_request), decide_validate, POLICY, load_state(None)).decision.result == "allowed"
    assert (
        run(one(admission_review(only_a_request)), decide_validate, POLICY, load_state(None)).decision.result
        == "denied"
    )


def test_validation_does_not_change_what_is_printed() -> None:
    result = run(one(POD), decide_validate, POLICY, load_state(None))
    assert result.pod == POD
    assert result.decision.patch is None


@pytest.mark.parametrize("decide", [decide_mutate, decide_validate], ids=["mutate", "validate"])
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(admission_review(None, operation="DELETE", oldObject=POD), id="a deletion"),
        pytest.param(admission_review({"target": {"name": "n"}, "metadata": {}}, kind={"kind": "Binding"}, subResource="binding"), id="a binding"),
        pytest.param(admission_review({"metadata": {}, "spec": {"ports": []}}, kind={"kind": "Service"}, resource={"resource": "services"}), id="a service"),
    ],
)  # fmt: skip
def test_reviews_of_other_objects_are_allowed(asked: dict[str, Any], decide: Any) -> None:
    result = run(one(asked), decide, POLICY, load_state(None))
    assert result.decision.result == "ignored"
    assert orjson.loads(result.answer)["response"] == {"uid": "u-1", "allowed": True}


def test_reviews_of_workloads_are_decided_as_on_a_server() -> None:
    bad = {"limits": {GPU: 2}, "requests": {GPU: 1}}
    template = {"metadata": {}, "spec": {"containers": [{"name": "a", "image": "b", "resources": bad}]}}
    deployment = {"metadata": {"name": "d"}, "spec": {"template": template, "replicas": 2}}
    asked = admission_review(
        deployment, kind={"group": "apps", "kind": "Deployment"}, resource={"group": "apps", "resource": "deployments"}
    )
    before = copy.deepcopy(asked)
    result = run(one(asked), decide_validate, POLICY, load_state(None))
    assert result.decision.result == "allowed"
    assert warnings_of(result.decision), "its pods will be refused"
    assert asked == before


# --- files ------------------------------------------------------------------------------------------------------------


def config_map(**data: str) -> str:
    return to_yaml(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gpu-admission-policy"}, "data": data}
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("profiles: {default: {shadow: true}}", id="a policy"),
        pytest.param(b"profiles: {default: {shadow: true}} # ConfigMap", id="a policy that mentions ConfigMaps"),
        pytest.param(config_map(**{"policy.yaml": "profiles: {default: {shadow: true}}"}), id="the ConfigMap that holds it"),
        pytest.param(orjson.dumps(yaml.safe_load(config_map(**{"policy.yaml": "profiles: {default: {shadow: true}}"}))), id="the ConfigMap as JSON"),
    ],
)  # fmt: skip
def test_a_policy_is_loaded(text: str | bytes) -> None:
    assert load_policy(text).profile("default")[1].shadow


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(config_map(other="x"), "the ConfigMap has no key policy.yaml: put the policy there", id="a ConfigMap without it"),
        pytest.param("kind: ConfigMap", "the ConfigMap has no key policy.yaml: put the policy there", id="a ConfigMap without data"),
        pytest.param(config_map(**{"policy.yaml": "gpus: 1"}), 'line 1: gpus: saw "1"; wanted a list', id="a bad policy inside"),
        pytest.param("# ConfigMap\na: [", "line 3: not YAML: did not find expected node content", id="broken YAML"),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_loaded(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(text)
    assert caught.value.problems == [problem]


def test_without_a_file_the_state_is_never_fresh() -> None:
    assert not load_state(None).view(0.0).fresh


def test_the_state_of_a_file_is_always_fresh(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(to_yaml({"kind": "List", "items": [{"kind": "Node", **node("gpu-a1")}]}))
    made = load_state(file)
    assert made.view(1e12).fresh
    assert free(made, "gpu-a1") == 8
