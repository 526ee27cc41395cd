"""Decisions of the mutating hook about pods: for which requests, and by which profile."""

from typing import Any

import jsonpatch
import orjson
import pytest

from tests.admission.reviews import CLUSTER, POLICY, mutated, validated
from tests.builders import GPU, ClusterFacts, classes, container, request
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.devices import kai
from tests.served import review
from tests.state.objects import state
from webhook.admission.context import subject_of
from webhook.admission.decision import IGNORED, Decision
from webhook.admission.pods import mutate
from webhook.admission.response import warnings_of
from webhook.kube.pod import DECISION, Pod
from webhook.kube.record import record_of
from webhook.kube.review import parse_review
from webhook.placement.placer import Placer


@pytest.mark.parametrize(
    ("obj", "tweaks"),
    [
        pytest.param(pod(), {"operation": "UPDATE"}, id="an update"),
        pytest.param(pod(), {"operation": "CONNECT"}, id="a connection"),
        pytest.param(pod(), {"resource": "deployments"}, id="another resource"),
        pytest.param(pod(), {"subresource": "status"}, id="a subresource"),
        pytest.param(pod(gpus=0), {}, id="no GPU"),
        pytest.param(pod(), {"namespace": "nothing"}, id="no injector is on"),
        pytest.param(None, {"operation": "DELETE"}, id="a deletion"),
    ],
)
def test_the_request_is_ignored(obj: Pod | None, tweaks: dict[str, Any]) -> None:
    decision = mutated(obj, **tweaks)
    assert decision is IGNORED
    assert Decision("ignored") == IGNORED, "the shared object was not changed"


def test_a_container_with_0_gpus_gets_no_gpu_by_its_image_and_nothing_that_is_for_gpu_pods() -> None:
    """As a chart writes it where its GPU is switched off."""
    decision = mutated(pod(containers=[container(gpu=0)]))
    assert orjson.loads(decision.record)["units"] == {"voidDevices": ["added", ["main"]]}
    assert decision.placement is None
    written = {each["path"] for each in orjson.loads(decision.patch or b"[]")}
    assert written == {"/spec/containers/0/env", "/metadata/annotations"}


@pytest.mark.parametrize("containers", [pytest.param(None, id="null"), pytest.param([], id="none")])
@pytest.mark.parametrize(
    ("notes", "limits"),
    [
        *[pytest.param({note: "1"}, {}, id=note) for note in ("gpu-fraction", "gpu-memory")],
        *[
            pytest.param({}, {name: 1}, id=name)
            for name in ("nvidia.com/gpumem", "volcano.sh/vgpu-memory", "aliyun.com/gpu-mem")
        ],
    ],
)
def test_a_pod_without_containers_is_no_error(
    notes: dict[str, str], limits: dict[str, int], containers: list[Any] | None
) -> None:
    """The API server asks about it, and refuses it afterwards."""
    first = container(limits=limits)
    made = {
        "metadata": {"name": "p", "annotations": notes},
        "spec": {"containers": containers, "initContainers": [first]},
    }
    assert mutated(made).result == "patched"
    assert validated(made)


def test_a_decision_says_what_was_done() -> None:
    decision = mutated(pod(containers=[{"name": "a", "image": "b", "resources": {"limits": {GPU: 1}}}]))
    assert decision.result == "patched"
    assert (decision.profile, decision.workload, decision.unknown_profile) == ("default", "development", False)
    assert {name: outcome.result for name, outcome in decision.outcomes.items()} == {
        "gpuResources": "filled",
        "tolerations": "added",
        "priorityClass": "missing",
        "voidDevices": "none",
        "topologySpread": "packed",
        "nodeAffinity": "none",
    }
    assert warnings_of(decision) == ['PriorityClass "gpu-development" does not exist: the pod keeps its priority']
    assert (decision.placement, decision.reservation) == (None, None), "there is nothing to choose nodes by"
    assert orjson.loads(decision.patch or b"")[-1] == {
        "op": "add",
        "path": "/metadata/annotations",
        "value": {DECISION: decision.record},
    }


def test_a_pod_that_needs_nothing_gets_the_record_and_nothing_else() -> None:
    complete = pod(requests={GPU: "1"}, tolerations=[{"operator": "Exists"}], annotations={"note": "mine"})
    decision = mutated(complete, cluster=ClusterFacts(namespaces=CLUSTER.namespaces, knows_priority_classes=False))
    assert [o["path"] for o in orjson.loads(decision.patch or b"")] == [
        "/metadata/annotations/gpu-admission.io~1decision"
    ]


def test_a_second_call_that_finds_nothing_to_do_leaves_the_record_as_it_was() -> None:
    complete = pod(
        requests={GPU: "1"}, tolerations=[{"operator": "Exists"}], annotations={DECISION: "the first call's"}
    )
    decision = mutated(complete, cluster=ClusterFacts(namespaces=CLUSTER.namespaces, knows_priority_classes=False))
    assert (decision.result, decision.patch) == ("unchanged", None)


def test_a_second_call_that_finds_something_to_do_writes_a_new_record() -> None:
    again = pod(annotations={DECISION: "the first call's"})
    decision = mutated(again)
    assert decision.result == "patched"
    assert orjson.loads(decision.patch or b"")[-1] == {
        "op": "replace",
        "path": "/metadata/annotations/gpu-admission.io~1decision",
        "value": decision.record,
    }


def test_the_record_of_a_second_call_keeps_what_the_first_one_did() -> None:
    """As when another hook adds a sidecar after the first."""
    cluster = ClusterFacts(namespaces=CLUSTER.namespaces, priority_classes=classes("gpu-development"))
    first = patched(pod(gpus=0, requests={GPU: "1"}), cluster)
    first["spec"]["containers"].append(container("proxy", gpu=None))
    second = record_of(patched(first, cluster))["units"]
    assert second == record_of(first)["units"] | {"voidDevices": ["added", ["proxy"]]}
    assert second["priorityClass"] == ["set", "gpu-development"]
    assert second["gpuResources"] == ["limitsFilled", 1]


def patched(made: Pod, cluster: ClusterFacts) -> Pod:
    patch = mutated(made, cluster=cluster).patch
    done: Pod = jsonpatch.apply_patch(made, orjson.loads(patch or b"[]"))
    return done


@pytest.mark.parametrize(
    "units", [{"tolerations": value} for value in (1, [], {}, [[1]], ["all of them, says its author"])]
)
def test_a_forged_record_is_no_error_and_adds_no_words_of_its_author(units: dict[str, Any]) -> None:
    forged = pod(
        containers=[container(), container("side", gpu=None)],
        annotations={DECISION: orjson.dumps({"units": units}).decode()},
    )
    forged["spec"]["tolerations"] = [{"operator": "Exists"}]
    decision = mutated(forged)
    assert decision.result == "patched"
    assert decision.outcomes["tolerations"].result == "covered"
    assert record_of(patched(forged, CLUSTER))["units"]["tolerations"] == ["covered"]


@pytest.mark.parametrize(
    ("namespace", "profile", "unknown", "warnings"),
    [
        pytest.param("lenient", "lenient", False, 0, id="a label names a profile"),
        pytest.param("prod", "default", False, 0, id="an empty label is default"),
        pytest.param("not yet seen", "default", False, 0, id="a namespace that the watch has not seen"),
        pytest.param("odd", "default", True, 1, id="a label that names no profile"),
    ],
)
def test_the_profile_of_a_namespace(namespace: str, profile: str, unknown: bool, warnings: int) -> None:
    decision = mutated(
        pod(), namespace, cluster=ClusterFacts(namespaces=CLUSTER.namespaces, knows_priority_classes=False)
    )
    assert (decision.profile, decision.unknown_profile, len(warnings_of(decision))) == (profile, unknown, warnings)
    assert validated(pod(), namespace).profile == profile


def test_a_class_that_the_namespace_is_not_entitled_to_is_not_given() -> None:
    wanting = pod(labels={"workload-type": "inference"})
    assert mutated(wanting, "prod").workload == "inference"
    decision = mutated(wanting, "default")
    assert decision.workload == "development"
    assert warnings_of(decision)[0] == 'namespace "default" is not entitled to class inference'


CONFLICT = pod(
    containers=[{"name": "a", "image": "b", "resources": {"limits": {GPU: 2}, "requests": {GPU: 1}}}], hostPID=True
)


def test_a_refusal_in_the_mutating_hook_has_the_findings_of_the_validating_hook_and_the_warnings_of_both() -> None:
    early, late = mutated(CONFLICT, "odd"), validated(CONFLICT, "odd")
    assert (early.result, early.patch, early.reservation) == ("denied", None, None)
    assert (early.message, early.findings) == (late.message, late.findings)
    assert [(unit, action) for unit, action, _ in early.findings] == [
        ("gpuQuantity", "deny"),
        ("hostNamespaces", "warn"),
        ("sharedMemory", "warn"),
    ]
    assert "the policy has no such profile" in str(early.warnings[0])


LEFT_TO_THE_API_SERVER = [
    pytest.param(
        pod(containers=[{"name": "a", "resources": {"limits": {GPU: 1}}}]),
        "default",
        id="no image, which does not concern GPUs",
    ),
    pytest.param(pod(containers=[container("Main")]), "default", id="a name in capitals"),
    pytest.param(
        CONFLICT | {"spec": CONFLICT["spec"] | {"serviceAccountName": "exporter"}},
        "ops",
        id="a bad quantity of GPUs from an exempt user",
    ),
    pytest.param(CONFLICT, "silent", id="a bad quantity of GPUs where the rule is off"),
]


@pytest.mark.parametrize(("obj", "namespace"), LEFT_TO_THE_API_SERVER)
def test_the_pod_is_changed_and_left_to_the_api_server(obj: Pod, namespace: str) -> None:
    assert mutated(obj, namespace).result == "patched"


def test_a_bad_quantity_is_refused_where_every_injector_is_off() -> None:
    assert mutated(CONFLICT, "nothing").result == "denied"


@pytest.mark.parametrize(
    ("kind", "metadata", "begins"),
    [
        ("Pod", {"name": "trainer"}, 'pod "trainer": 3'),
        ("Pod", {"generateName": "web-"}, 'pod generateName "web-": 3'),
        ("Pod", {"name": "web-x7k2p", "generateName": "web-"}, 'pod generateName "web-": 3'),
        ("Pod", {"name": "chosen", "generateName": "web-"}, 'pod "chosen": 3'),
        ("Pod", {}, 'pod generateName "": 3'),
        ("Pod", {"name": 'a" \n\x1b[31m'}, r'pod "a\" \n\x1b[31m": 3'),
        ("Pod", {"generateName": 'a" \n\x1b[31m'}, r'pod generateName "a\" \n\x1b[31m": 3'),
        ("Deployment", {"name": "web"}, 'Deployment "web": 3'),
        ("Job", {"generateName": "tune-"}, 'Job generateName "tune-": 3'),
    ],
)
def test_a_refusal_begins_with_what_is_refused(kind: str, metadata: Any, begins: str) -> None:
    asked = parse_review(review({"metadata": metadata}, kind={"kind": kind}, resource={"resource": f"{kind.lower()}s"}))
    assert f"{subject_of(asked)}: 3".startswith(begins)


def test_shadow_decides_and_changes_nothing() -> None:
    refused, patched = mutated(CONFLICT, "quiet"), mutated(pod(), "quiet")
    assert (refused.result, refused.patch, bool(refused.message)) == ("dryRun", None, True)
    assert (patched.result, patched.patch, bool(patched.record)) == ("dryRun", None, True)
    assert not patched.reservation


def test_a_part_of_a_gpu_is_sent_to_the_node_that_is_chosen_and_held() -> None:
    shares = node("a", 0, resources={"aliyun.com/gpu-mem": "16"})
    shares["status"]["capacity"] = {"aliyun.com/gpu-mem": "16", "aliyun.com/gpu-count": "1"}
    there, part = state([shares]), pod(gpus=0, limits={"aliyun.com/gpu-mem": "3"})
    decision = mutate(request(part), POLICY, there.view(0), Placer(there))
    assert decision.placement is not None
    assert [each.node for each in decision.placement.nodes] == ["a"]
    assert decision.outcomes["nodeAffinity"].result == "preferred"
    assert b"nodeAffinity" in (decision.patch or b"")
    assert decision.reservation is not None


def test_a_part_of_a_gpu_whose_node_another_scheduler_chooses_is_not_spread() -> None:
    part = pod(
        gpus=0,
        annotations={"gpu-fraction": "0.5"},
        labels={"app": "a"},
        owned_by="ReplicaSet",
        schedulerName="kai-scheduler",
    )
    there = state([node("a")], [kai.reservation("g", "a")])
    decision = mutate(request(part), POLICY, there.view(0), Placer(there))
    assert decision.outcomes["topologySpread"].result == "packed"
    assert decision.outcomes["nodeAffinity"].detail == "another scheduler"
