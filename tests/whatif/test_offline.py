"""Documents in files, and decisions on them without a server."""

from typing import Any

import orjson
import pytest
import yaml

from tests.builders import GPU, admission_review
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.deciding import decide_mutate, decide_validate, run
from tests.state.objects import free, state
from webhook.errors import BadInput, PolicyError
from webhook.kube.yaml import to_yaml
from webhook.state.state import ClusterState
from webhook.whatif.offline import Document, documents, load_policy, new_state

POLICY = load_policy()
POD = pod(namespace="team-a")

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


WANTED = "wanted a Pod or an AdmissionReview, saw "


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param({"kind": "Service", "metadata": {}}, WANTED + 'kind "Service"', id="another kind"),
        pytest.param({"metadata": {}}, WANTED + "kind nothing", id="no kind"),
        pytest.param([POD], WANTED + "a list", id="a list at the top"),
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


# --- decisions --------------------------------------------------------------------------------------------------------


def two_nodes() -> ClusterState:
    return state([node("gpu-a1", 2), node("gpu-a2", 2)])


def chosen(result: Any) -> str:
    terms = result.pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return str(terms[0]["preference"]["matchExpressions"][0]["values"][0])


def test_pods_are_decided_in_order_with_reservations_as_on_a_server() -> None:
    cluster = two_nodes()
    pods = [pod(name=f"p{i}", labels={"app": "a"}, owned_by="ReplicaSet") for i in range(4)]
    results = [run(one(p), decide_mutate, POLICY, cluster) for p in pods]
    assert sorted(map(chosen, results)) == ["gpu-a1", "gpu-a1", "gpu-a2", "gpu-a2"]
    assert free(cluster, "gpu-a1") == free(cluster, "gpu-a2") == 0
    # Reservations that the API server has not confirmed take no pod its last node.
    assert run(one(pod()), decide_mutate, POLICY, cluster).decision.outcomes["nodeAffinity"].result == "preferred"


def test_a_dry_run_reserves_nothing() -> None:
    cluster = two_nodes()
    run(one(admission_review(POD, dryRun=True)), decide_mutate, POLICY, cluster)
    assert free(cluster, "gpu-a1") == 2


def test_a_pod_is_validated_as_the_mutating_hook_leaves_it_and_a_review_as_it_is() -> None:
    only_a_request = pod(containers=[{"name": "a", "image": "b", "resources": {"requests": {GPU: 1}}}])
    assert run(one(only_a_request), decide_validate, POLICY, new_state()).decision.result == "allowed"
    assert run(one(admission_review(only_a_request)), decide_validate, POLICY, new_state()).decision.result == "denied"
    misspelt = run(one(pod(labels={"workload-type": "inferense"})), decide_validate, POLICY, new_state())
    assert any("nearest: inference" in warning for warning in misspelt.decision.warnings)


@pytest.mark.parametrize("decide", [decide_mutate, decide_validate], ids=["mutate", "validate"])
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(admission_review(None, operation="DELETE", oldObject=POD), id="a deletion"),
        pytest.param(admission_review({"target": {"name": "n"}, "metadata": {}}, kind={"kind": "Binding"}, subResource="binding"), id="a binding"),
    ],
)  # fmt: skip
def test_reviews_of_other_objects_are_allowed(asked: dict[str, Any], decide: Any) -> None:
    result = run(one(asked), decide, POLICY, new_state())
    assert result.decision.result == "ignored"
    assert orjson.loads(result.answer)["response"] == {"uid": "u-1", "allowed": True}


# --- files ------------------------------------------------------------------------------------------------------------


def config_map(**data: str) -> str:
    return to_yaml(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gpu-admission-policy"}, "data": data}
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("profiles: {default: {dryRun: true}}", id="a policy"),
        pytest.param(b"profiles: {default: {dryRun: true}} # ConfigMap", id="a policy that mentions ConfigMaps"),
        pytest.param(config_map(**{"policy.yaml": "profiles: {default: {dryRun: true}}"}), id="the ConfigMap that holds it"),
        pytest.param(orjson.dumps(yaml.safe_load(config_map(**{"policy.yaml": "profiles: {default: {dryRun: true}}"}))), id="the ConfigMap as JSON"),
    ],
)  # fmt: skip
def test_a_policy_is_loaded(text: str | bytes) -> None:
    assert load_policy(text).profile("default")[1].dry_run


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
