"""Decisions of the validating hook about pods: what is checked, denied, or only warned about.

Covers admission.decision.
"""

import copy
from typing import Any

import pytest

from tests.admission.reviews import GREEDY, mutated, reported, validated
from tests.builders import GPU, UNKNOWN, container
from tests.controlplane.objects import pod
from webhook.admission.decision import IGNORED
from webhook.admission.response import warnings_of
from webhook.kube.pod import Pod


@pytest.mark.parametrize(
    ("obj", "tweaks"),
    [
        pytest.param(GREEDY, {"resource": "services"}, id="another resource"),
        pytest.param(GREEDY, {"subresource": "binding"}, id="a binding"),
        pytest.param(GREEDY, {"subresource": "status"}, id="a status"),
        pytest.param(GREEDY, {"subresource": "resize"}, id="a resize"),
        pytest.param(GREEDY, {"operation": "DELETE"}, id="a deletion"),
        pytest.param(GREEDY, {"operation": "CONNECT"}, id="a connection"),
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
def test_the_request_is_not_checked(obj: Pod, tweaks: dict[str, Any]) -> None:
    assert validated(obj, **tweaks) is IGNORED


@pytest.mark.parametrize(
    "tweaks",
    [
        pytest.param({"namespace": "ops"}, id="a service account of a namespace"),
        pytest.param({"groups": ("dev", "admins")}, id="a group of the user"),
    ],
)
def test_exempt_pods_are_not_checked(tweaks: dict[str, Any]) -> None:
    decision = validated(GREEDY | {"spec": GREEDY["spec"] | {"serviceAccountName": "exporter"}}, **tweaks)
    assert (decision.result, decision.findings) == ("allowed", ())


def test_a_namespace_that_the_watch_knows_without_the_label_has_opted_in_since() -> None:
    """The API server asks about labelled namespaces only."""
    decision = validated(GREEDY, "plain")
    assert (decision.result, decision.profile) == ("denied", "default")
    assert mutated(pod(), "plain").profile == "default"


def test_other_pods_are_checked() -> None:
    for namespace, account in (("ops", "default"), ("default", "exporter")):
        reserved_pod_seen = GREEDY | {"spec": GREEDY["spec"] | {"serviceAccountName": account}}
        assert validated(reserved_pod_seen, namespace).result == "denied"


def test_a_bad_pod_is_denied_with_all_findings_and_gets_the_warnings_too() -> None:
    both = pod(containers=[container("a", gpu=5), container("b", gpu=6)], hostPID=True)
    decision = validated(both)
    assert decision.result == "denied"
    assert reported(decision) == [
        ("gpuLimit", "deny", f"spec.containers[0].resources.limits[{GPU}]"),
        ("gpuLimit", "deny", f"spec.containers[1].resources.limits[{GPU}]"),
        ("hostNamespaces", "warn", "spec.hostPID"),
        ("sharedMemory", "warn", "spec.containers[0].volumeMounts"),
        ("sharedMemory", "warn", "spec.containers[1].volumeMounts"),
    ]
    assert decision.message.startswith('pod generateName "": 2 problems')
    assert [line.partition(":")[0] for line in warnings_of(decision)] == ["hostNamespaces", *["sharedMemory"] * 2]


def test_shadow_finds_and_allows() -> None:
    decision = validated(GREEDY, "quiet")
    assert decision.result == "dryRun"
    assert decision.message
    assert reported(decision)
    assert not decision.would, "a refused pod would not be changed"


def test_shadow_says_what_would_be_changed() -> None:
    decision = validated(pod(), "quiet")
    assert decision.result == "allowed"
    assert decision.would.startswith("get ")
    assert "topologySpread" not in decision.would, "it has no owner"
    assert not validated(pod()).would
    assert not validated(pod(containers=[{"name": "main"}]), "quiet").would, "nothing is added to a pod without GPUs"


def test_of_an_update_only_new_violations_count() -> None:
    """A rule that is newer than the pod must not keep the pod from ending."""
    old = pod(containers=[container("a", gpu=5), container("b")])
    same_fault = copy.deepcopy(old)
    same_fault["spec"]["tolerations"] = [{"key": "x", "operator": "Exists"}]
    assert validated(same_fault, operation="UPDATE", old=old).result == "allowed"
    new_fault = copy.deepcopy(old)
    new_fault["metadata"]["annotations"] = {"cdi.k8s.io/gpus": "nvidia.com/gpu=all"}
    decision = validated(new_fault, operation="UPDATE", old=old)
    assert decision.result == "denied"
    assert {unit for unit, _, _ in decision.findings} == {"deviceAnnotations"}


def test_ephemeral_containers_are_checked() -> None:
    old = pod()
    debugged = pod(ephemeral=[container("debug", gpu=None, env={"NVIDIA_VISIBLE_DEVICES": "all"})])
    decision = validated(debugged, operation="UPDATE", subresource="ephemeralcontainers", old=old)
    assert decision.result == "denied"
    assert reported(decision)[0][2].startswith("spec.ephemeralContainers[0]")


LONG = "cdi.k8s.io/" + "a" * 60
VALUE = "nvidia.com/gpu=0," * 10


@pytest.mark.parametrize(
    ("before", "after", "result"),
    [
        pytest.param({LONG: VALUE}, {LONG: VALUE, "another": "one"}, "allowed", id="what is there may stay"),
        pytest.param({LONG: VALUE + "0"}, {LONG: VALUE + "1"}, "denied", id="a value that differs after 80 characters"),
        pytest.param({LONG: "a" * 80 + "b"}, {LONG: "a" * 81}, "denied", id="a value of the same length"),
        pytest.param(
            {"x." * 40 + LONG: "all"}, {"x." * 40 + LONG: "all", "x." * 40 + LONG[:-1]: "all"}, "denied",
            id="another key that differs after 80 characters",
        ),
        pytest.param({LONG: VALUE + "0", "another": "one"}, {"another": "two"}, "allowed", id="what is removed"),
    ],
)  # fmt: skip
def test_values_are_compared_as_a_whole_though_messages_cut_them(
    before: dict[str, str], after: dict[str, str], result: str
) -> None:
    old, new = pod(annotations=before), pod(annotations=after)
    assert validated(new, operation="UPDATE", old=old).result == result


def test_an_update_without_the_old_object_is_checked_as_a_whole() -> None:
    assert validated(GREEDY, operation="UPDATE").result == "denied"


def test_the_number_of_findings_per_rule_is_bounded() -> None:
    many = pod(containers=(container(f"c{i}", gpu=5) for i in range(100)))
    decision = validated(many)
    assert len([unit for unit, _, _ in decision.findings if unit == "gpuLimit"]) == 20
    assert len(decision.message) < 10_000


HUGE = pod(containers=(container(f"c{i}", gpu=None) for i in range(300)), hostNetwork=True, hostIPC=True)


def test_no_rule_runs_on_a_pod_that_is_refused_for_its_size() -> None:
    assert {unit for unit, _, _ in validated(HUGE).findings} == {"podSize"}


def test_no_finding_depends_on_a_cluster_that_is_not_known() -> None:
    decision = validated(pod(priorityClassName="anything"), "not yet seen", cluster=UNKNOWN)
    assert decision.result == "allowed"
