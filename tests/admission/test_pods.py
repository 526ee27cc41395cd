"""Decisions, without bytes around them and without nodes: what is decided when, for whom, and by which profile.

Covers admission.decision.
"""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest

from tests.builders import GPU, TWO_NODES, UNKNOWN, ClusterFacts, container, pod
from tests.cluster.objects import node, state
from tests.served import review
from webhook.admission.context import PROFILE_LABEL, subject_of
from webhook.admission.decision import IGNORED, Decision
from webhook.admission.pods import mutate, validate
from webhook.admission.response import warnings_of
from webhook.errors import BadPod
from webhook.kube import json_patch
from webhook.kube.pod import DECISION, Pod
from webhook.kube.review import Request, parse_review
from webhook.placement.placer import Placer
from webhook.policy.model import Policy

POLICY = Policy.load("""
classes:
  - {class: inference, labels: {workload-type: [inference]}, namespaces: [prod]}
  - {class: development}
profiles:
  default:
    rules:
      gpuLimit: {perContainer: 4, perPod: 8}
      hostNamespaces: {action: warn}
      gpuFits: {action: off}
    exempt:
      - {namespaces: [ops], serviceAccounts: [exporter]}
      - {namespaces: ["*"], groups: [admins]}
  lenient: {rules: {gpuLimit: {action: warn}}}
  quiet: {shadow: true}
  silent: {rules: {gpuQuantity: {action: off}}}
  nothing:
    injectors: {gpuResources: {enabled: false}, tolerations: {enabled: false}, priorityClass: {enabled: false},
                voidDevices: {enabled: false}, topologySpread: {enabled: false}, nodeAffinity: {enabled: false}}
""")
PROFILES = {name: {PROFILE_LABEL: name} for name in ("default", "lenient", "quiet", "silent", "nothing")}
CLUSTER = ClusterFacts(
    priority_classes=TWO_NODES.priority_classes,
    offers=TWO_NODES.offers,
    labels=TWO_NODES.labels,
    taints=TWO_NODES.taints,
    namespaces={
        **PROFILES,
        "plain": {},
        "odd": {PROFILE_LABEL: "no such"},
        "prod": {PROFILE_LABEL: ""},
        "ops": {PROFILE_LABEL: ""},
    },
)


def request(obj: Pod | None, namespace: str = "default", **tweaks: Any) -> Request:
    asked = Request(
        uid="u-1", kind="Pod", group="", resource="pods", subresource="", operation="CREATE", namespace=namespace,
        name="", user="jane", groups=("dev",), dry_run=False, object=copy.deepcopy(obj), old=None,
    )  # fmt: skip
    return asked._replace(**tweaks)


def mutated(obj: Pod | None, namespace: str = "default", cluster: ClusterFacts = CLUSTER, **tweaks: Any) -> Decision:
    return mutate(request(obj, namespace, **tweaks), POLICY, cluster, None)


def validated(obj: Pod | None, namespace: str = "default", cluster: ClusterFacts = CLUSTER, **tweaks: Any) -> Decision:
    return validate(request(obj, namespace, **tweaks), POLICY, cluster, None)


def told(decision: Decision) -> list[tuple[str, str, str]]:
    return [(unit, action, finding.path) for unit, action, finding in decision.findings]


GREEDY = pod(container(gpu=5))
HOSTILE = pod(hostPID=True)


# --- mutate -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "tweaks"),
    [
        pytest.param(pod(), {"operation": "UPDATE"}, id="an update"),
        pytest.param(pod(), {"operation": "CONNECT"}, id="a connection"),
        pytest.param(pod(), {"resource": "deployments"}, id="another resource"),
        pytest.param(pod(), {"subresource": "status"}, id="a subresource"),
        pytest.param(pod(), {"namespace": "plain"}, id="a namespace that has not opted in"),
        pytest.param(pod(container(gpu=None)), {}, id="no GPU"),
        pytest.param(pod(container(gpu=0)), {}, id="0 GPUs"),
        pytest.param(pod(), {"namespace": "nothing"}, id="no injector is on"),
        pytest.param(None, {"operation": "DELETE"}, id="a deletion"),
    ],
)
def test_this_is_none_of_our_business(obj: Pod | None, tweaks: dict[str, Any]) -> None:
    decision = mutated(obj, **tweaks)
    assert decision is IGNORED
    assert Decision("ignored") == IGNORED, "what all share was not written to"


def test_there_has_to_be_a_pod() -> None:
    with pytest.raises(BadPod, match=r"^object: wanted a Pod, saw none$"):
        mutated(None)
    with pytest.raises(BadPod, match=r"^object: wanted a Pod, saw none$"):
        validated(None)


def test_a_decision_says_what_was_done() -> None:
    decision = mutated(pod({"name": "a", "image": "b", "resources": {"limits": {GPU: 1}}}))
    assert decision.result == "patched"
    assert (decision.profile, decision.workload, decision.unknown_profile) == ("default", "development", False)
    assert {name: outcome.result for name, outcome in decision.outcomes.items()} == {
        "gpuResources": "filled",
        "tolerations": "added",
        "priorityClass": "missing",
        "voidDevices": "none",
        "topologySpread": "noOwner",
        "nodeAffinity": "none",
    }
    assert warnings_of(decision) == ['PriorityClass "gpu-development" does not exist: the pod keeps its priority']
    assert decision.placement is not None
    assert decision.placement.reason == "cluster state is not known"
    assert not decision.reservation, "no node was chosen"
    record = orjson.loads(decision.record)
    assert record["why"] == "cluster state is not known"
    assert orjson.loads(decision.patch or b"")[-1] == {
        "op": "add",
        "path": "/metadata/annotations",
        "value": {DECISION: decision.record},
    }


def test_a_pod_that_needs_nothing_gets_the_record_and_nothing_else() -> None:
    complete = pod(tolerations=[{"operator": "Exists"}], annotations={"note": "mine"})
    decision = mutated(complete, cluster=ClusterFacts(namespaces=CLUSTER.namespaces, knows_priority_classes=False))
    assert [o["path"] for o in orjson.loads(decision.patch or b"")] == [
        "/metadata/annotations/gpu-admission.io~1decision"
    ]


def test_a_second_call_that_finds_nothing_to_do_leaves_the_record_as_it_was() -> None:
    complete = pod(tolerations=[{"operator": "Exists"}], annotations={DECISION: "the first call's"})
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


def test_a_class_that_the_namespace_may_not_have_is_not_given() -> None:
    wanting = pod(labels={"workload-type": "inference"})
    assert mutated(wanting, "prod").workload == "inference"
    decision = mutated(wanting, "default")
    assert decision.workload == "development"
    assert warnings_of(decision)[0] == 'namespace "default" is not entitled to class inference'


CONFLICT = pod({"name": "a", "image": "b", "resources": {"limits": {GPU: 2}, "requests": {GPU: 1}}}, hostPID=True)


def test_a_refusal_tells_everything_at_once() -> None:
    decision = mutated(CONFLICT)
    assert decision.result == "denied"
    assert decision.patch is None
    assert not decision.reservation
    assert decision.message
    assert ("hostNamespaces", "warn", "spec.hostPID") in told(decision), "what only warns is told too"
    assert [unit for unit, action, _ in decision.findings if action == "deny"] == ["gpuQuantity"]


def test_a_refusal_in_the_mutating_hook_is_that_of_the_validating_one_with_the_warnings_of_both() -> None:
    early, late = mutated(CONFLICT, "odd"), validated(CONFLICT, "odd")
    assert (early.message, early.findings) == (late.message, late.findings)
    assert "the policy has no such profile" in str(early.warnings[0])


LEFT_TO_THE_API_SERVER = {
    "no image, which is not about GPUs": (pod({"name": "a", "resources": {"limits": {GPU: 1}}}), "default"),
    "a name in capitals": (pod(container("Main")), "default"),
    "a bad quantity of GPUs of somebody who is exempt": (
        CONFLICT | {"spec": CONFLICT["spec"] | {"serviceAccountName": "exporter"}},
        "ops",
    ),
    "a bad quantity of GPUs where the rule is off": (CONFLICT, "silent"),
}


@pytest.mark.parametrize(("obj", "namespace"), LEFT_TO_THE_API_SERVER.values(), ids=LEFT_TO_THE_API_SERVER)
def test_it_is_completed_and_left_to_the_api_server(obj: Pod, namespace: str) -> None:
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
        ("Pod", {"name": "", "generateName": ""}, 'pod generateName "": 3'),
        ("Pod", {}, 'pod generateName "": 3'),
        ("Pod", None, 'pod generateName "": 3'),
        ("Pod", [], 'pod generateName "": 3'),
        ("Pod", {"name": 'a" \n\x1b[31m'}, r'pod "a\" \n\x1b[31m": 3'),
        ("Pod", {"generateName": 'a" \n\x1b[31m'}, r'pod generateName "a\" \n\x1b[31m": 3'),
        ("Pod", {"name": "a-b", "generateName": {}}, 'pod "a-b": 3'),
        ("Pod", {"name": ["a"], "generateName": "a-"}, 'pod "a list": 3'),
        ("Pod", {"name": 12}, 'pod "12": 3'),
        ("ConfigMap", {"name": "p"}, 'ConfigMap "p": 3'),
        ("Deployment", {"name": "web"}, 'Deployment "web": 3'),
        ("Job", {"generateName": "tune-"}, 'Job generateName "tune-": 3'),
    ],
)
def test_a_refusal_begins_with_what_is_refused(kind: str, metadata: Any, begins: str) -> None:
    asked = parse_review(review({"metadata": metadata}, kind={"kind": kind}, resource={"resource": f"{kind.lower()}s"}))
    assert f"{subject_of(asked)}: 3".startswith(begins)


def test_shadow_decides_and_changes_nothing() -> None:
    refused, patched = mutated(CONFLICT, "quiet"), mutated(pod(), "quiet")
    assert (refused.result, refused.patch, bool(refused.message)) == ("shadow", None, True)
    assert (patched.result, patched.patch, bool(patched.record)) == ("shadow", None, True)
    assert not patched.reservation


def test_a_patch_that_does_not_give_the_edited_pod_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_patch, "pointer", lambda path: "/spec/nothing/at/all")
    decision = mutated(pod())
    assert (decision.result, decision.patch, decision.reservation) == ("gated", None, None)
    assert warnings_of(decision) == ["gpu-admission: internal error, the pod was left as it was: please report this"]


# --- validate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "tweaks"),
    [
        pytest.param(GREEDY, {"resource": "services"}, id="another resource"),
        pytest.param(GREEDY, {"subresource": "binding"}, id="a binding"),
        pytest.param(GREEDY, {"subresource": "status"}, id="a status"),
        pytest.param(GREEDY, {"subresource": "resize"}, id="a resize"),
        pytest.param(GREEDY, {"operation": "DELETE"}, id="a deletion"),
        pytest.param(GREEDY, {"operation": "CONNECT"}, id="a connection"),
        pytest.param(GREEDY, {"namespace": "plain"}, id="a namespace that has not opted in"),
        pytest.param(GREEDY, {"operation": "UPDATE", "old": GREEDY}, id="an update that changes nothing"),
        pytest.param(
            GREEDY | {"metadata": {"name": "trainer", "labels": {"new": "one"}, "finalizers": []}},
            {"operation": "UPDATE", "old": GREEDY | {"metadata": {"name": "trainer"}}},
            id="an update of labels and finalizers",
        ),
        pytest.param(
            GREEDY | {"status": {"x": 1}}, {"operation": "UPDATE", "old": GREEDY}, id="an update of the status"
        ),
    ],
)
def test_this_is_not_judged(obj: Pod, tweaks: dict[str, Any]) -> None:
    assert validated(obj, **tweaks) is IGNORED


@pytest.mark.parametrize(
    "tweaks",
    [
        pytest.param({"namespace": "ops"}, id="a service account of a namespace"),
        pytest.param({"groups": ("dev", "admins")}, id="a group of whoever asks"),
    ],
)
def test_the_exempt_are_not_judged(tweaks: dict[str, Any]) -> None:
    decision = validated(GREEDY | {"spec": GREEDY["spec"] | {"serviceAccountName": "exporter"}}, **tweaks)
    assert (decision.result, decision.findings) == ("allowed", ())


def test_the_others_are() -> None:
    for namespace, account in (("ops", "default"), ("default", "exporter")):
        reserved_pod_seen = GREEDY | {"spec": GREEDY["spec"] | {"serviceAccountName": account}}
        assert validated(reserved_pod_seen, namespace).result == "denied"


def test_a_good_pod_is_allowed() -> None:
    decision = validated(pod())
    assert (decision.result, decision.message, told(decision)) == ("allowed", "", [])


def test_a_bad_pod_is_denied_with_all_that_is_wrong_and_warned_of_the_rest() -> None:
    both = pod(container("a", gpu=5), container("b", gpu=6), hostPID=True)
    decision = validated(both)
    assert decision.result == "denied"
    assert told(decision) == [
        ("gpuLimit", "deny", f"spec.containers[0].resources.limits[{GPU}]"),
        ("gpuLimit", "deny", f"spec.containers[1].resources.limits[{GPU}]"),
        ("hostNamespaces", "warn", "spec.hostPID"),
    ]
    assert decision.message.startswith('pod generateName "": 2 problems')
    assert [line.partition(":")[0] for line in warnings_of(decision)] == ["hostNamespaces"]


def test_warnings_alone_allow() -> None:
    decision = validated(GREEDY, "lenient")
    assert (decision.result, decision.message) == ("allowed", "")
    assert len(warnings_of(decision)) == 1
    assert validated(HOSTILE).result == "allowed"


def test_shadow_finds_and_allows() -> None:
    decision = validated(GREEDY, "quiet")
    assert decision.result == "shadow"
    assert decision.message
    assert told(decision)


def test_of_an_update_only_what_it_brings_is_judged() -> None:
    """A Pod that was there before its rule must not be stopped from ending."""
    old = pod(container("a", gpu=5), container("b"))
    same_fault = copy.deepcopy(old)
    same_fault["spec"]["tolerations"] = [{"key": "x", "operator": "Exists"}]
    assert validated(same_fault, operation="UPDATE", old=old).result == "allowed"
    new_fault = copy.deepcopy(old)
    new_fault["metadata"]["annotations"] = {"cdi.k8s.io/gpus": "nvidia.com/gpu=all"}
    decision = validated(new_fault, operation="UPDATE", old=old)
    assert decision.result == "denied"
    assert {unit for unit, _, _ in decision.findings} == {"deviceAnnotations"}


def test_ephemeral_containers_are_judged() -> None:
    old = pod()
    debugged = pod(ephemeral=[container("debug", gpu=None, env={"NVIDIA_VISIBLE_DEVICES": "all"})])
    decision = validated(debugged, operation="UPDATE", subresource="ephemeralcontainers", old=old)
    assert decision.result == "denied"
    assert told(decision)[0][2].startswith("spec.ephemeralContainers[0]")


def test_an_update_without_the_old_object_is_judged_as_a_whole() -> None:
    assert validated(GREEDY, operation="UPDATE").result == "denied"


def test_of_one_rule_no_more_is_told_than_a_person_reads() -> None:
    many = pod(*(container(f"c{i}", gpu=5) for i in range(100)))
    decision = validated(many)
    assert len([unit for unit, _, _ in decision.findings if unit == "gpuLimit"]) == 20
    assert len(decision.message) < 10_000


HUGE = pod(*(container(f"c{i}", gpu=None) for i in range(300)), hostNetwork=True, hostIPC=True)


def test_nothing_else_is_looked_at_in_a_pod_that_is_refused_for_its_size() -> None:
    assert {unit for unit, _, _ in validated(HUGE).findings} == {"podSize"}


def test_an_old_pod_that_is_too_large_does_not_hide_what_an_update_brings() -> None:
    old = pod(*(container(f"c{i}", gpu=None) for i in range(300)))
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {"cdi.k8s.io/gpus": "nvidia.com/gpu=all"}
    assert told(validated(new, operation="UPDATE", old=old))[0][:2] == ("deviceAnnotations", "deny")


def test_nothing_is_judged_by_a_cluster_that_nobody_knows() -> None:
    decision = validated(pod(priorityClassName="anything"), "not yet seen", cluster=UNKNOWN)
    assert decision.result == "allowed"


CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}
PARTS = [
    pytest.param(pod(container(gpu=None), **CLAIM), "GPUs only through DRA", id="a claim (DRA)"),
    pytest.param(pod(container(gpu=None, limits={"nvidia.com/gpu.shared": "1"})), "no node fits", id="a slot"),
    pytest.param(
        pod(container(limits={"nvidia.com/gpumem": "4000"})),
        "GPUs that another scheduler serves",
        id="HAMi: GPU memory",
    ),
    pytest.param(
        pod(container(gpu=None), annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler"),
        "another scheduler",
        id="KAI: a fraction",
    ),
]


@pytest.mark.parametrize(("made", "why"), PARTS)
def test_a_pod_with_a_claim_or_a_part_of_a_gpu_has_a_record_too(made: Pod, why: str) -> None:
    placer = Placer(state([node("a")]))
    decision = mutate(request(made), POLICY, CLUSTER, placer)
    assert decision.result == "patched"
    record = orjson.loads(decision.record)
    assert (record.get("why"), record["class"]) == (why, "development")
