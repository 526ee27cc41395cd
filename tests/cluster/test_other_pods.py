"""What is kept of other pods besides their demand: anti-affinity, what confines waiting pods, and claims in use.

Covers cluster.pod_terms.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.objects import node, pod, state
from webhook.cluster.other_pods import ANY
from webhook.cluster.pod_terms import PodTerm, pod_terms

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CHAT = {"matchLabels": {"app": "chat"}}


def keeping_away(name: str, *terms: dict[str, Any], **made: Any) -> dict[str, Any]:
    listed = [{"topologyKey": HOST, "labelSelector": CHAT, **term} for term in terms]
    return pod(name, affinity={"podAntiAffinity": {REQUIRED: listed}}, **made)


def using(name: str, claim: str, **made: Any) -> dict[str, Any]:
    return pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}, {"name": "w"}], **made)


# --- terms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "namespace", "labels", "meant"),
    [
        pytest.param({}, "team-a", {"app": "chat"}, True, id="its own namespace"),
        pytest.param({}, "team-b", {"app": "chat"}, False, id="another namespace"),
        pytest.param({}, "team-a", {"app": "cache"}, False, id="another label"),
        pytest.param({"namespaces": ["team-b"]}, "team-b", {"app": "chat"}, True, id="a namespace by name"),
        pytest.param({"namespaces": ["team-b"]}, "team-a", {"app": "chat"}, False, id="its own is not named"),
        pytest.param({"namespaceSelector": {}}, "team-c", {"app": "chat"}, True, id="all namespaces"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"x": "y"}}}, "team-c", {"app": "chat"}, True, id="by label"
        ),
        pytest.param({"namespaceSelector": {"matchLabels": {"x": "z"}}}, "team-c", {"app": "chat"}, False, id="others"),
        pytest.param({"labelSelector": {}}, "team-a", {}, True, id="every pod"),
        pytest.param({"labelSelector": None}, "team-a", {}, False, id="no pod"),
    ],
)
def test_which_pods_a_term_matches(term: dict[str, Any], namespace: str, labels: dict[str, str], meant: bool) -> None:
    (found,) = pod_terms(keeping_away("p", term), "podAntiAffinity")
    assert found.matches(namespace, labels, {"x": "y"}) is meant


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}, id="an unknown operator"
        ),
        pytest.param({"labelSelector": {"matchExpressions": [{}]}}, id="an expression without a key"),
        pytest.param({"labelSelector": {"matchLabels": {"a": "b" * 5000}}}, id="one that is very long"),
    ],
)
def test_a_malformed_or_long_term_is_left_out(term: dict[str, Any]) -> None:
    assert pod_terms(keeping_away("p", term), "podAntiAffinity") == ()


def test_the_number_of_terms_of_a_pod_is_bounded() -> None:
    assert len(pod_terms(keeping_away("p", *[{}] * 100), "podAntiAffinity")) == 8
    assert pod_terms(keeping_away("p", {}), "podAffinity") == ()


# --- kept of pods on nodes --------------------------------------------------------------------------------------------


def test_terms_are_kept_by_namespace() -> None:
    of = state([node("a")], [keeping_away("p", {"namespaces": ["x", "y"], "namespaceSelector": {}}, on="a")])
    assert set(of.other_pods.anti_affinity) == {"x", "y", ANY}


def test_equal_pods_are_counted_until_the_last_is_gone() -> None:
    pods = [keeping_away(name, {}, on="a") for name in ("p", "q")]
    of = state([node("a")], pods)
    term = PodTerm(("team-a",), None, pod_terms(pods[0], "podAntiAffinity")[0].selector, HOST)
    assert of.other_pods.anti_affinity == {"team-a": {term: {"a": 2}}}
    of.pod_seen(pods[0], 1)
    of.pod_gone(pods[0])
    assert of.other_pods.anti_affinity == {"team-a": {term: {"a": 1}}}
    of.pod_seen(pods[1] | {"status": {"phase": "Succeeded"}}, 2)
    assert of.other_pods.anti_affinity == {}


def test_a_claim_is_in_use_while_a_pod_with_it_is_on_a_node_with_a_gpu_or_without() -> None:
    of = state([node("a")], [using("p", "data", on="a"), using("q", "data", gpus=0, on="a"), using("r", "more")])
    assert of.other_pods.volume_claims_in_use == {"team-a/data": 2}
    of.replace("pods", [using("q", "data", gpus=0, on="a")], 1)
    assert of.other_pods.volume_claims_in_use == {"team-a/data": 1}


# --- waiting pods -----------------------------------------------------------------------------------------------------


def test_a_waiting_pod_is_known_until_it_is_bound_or_deleted() -> None:
    pods = [pod(name, nodeSelector={HOST: "a"}) for name in "pqr"]
    of = state([node("a")], pods)
    assert list(of.other_pods.waiting) == ["uid-p", "uid-q", "uid-r"]
    of.pod_seen(pod("p", nodeSelector={HOST: "a"}, on="a"), 1)
    of.pod_gone(pods[1])
    assert list(of.other_pods.waiting) == ["uid-r"]
    of.replace("pods", [], 2)
    assert list(of.other_pods.waiting) == []


@pytest.mark.parametrize(
    "spec",
    [{}, {"nodeSelector": {}}, {"tolerations": [{"operator": "Exists"}]}, {"nodeSelector": {"a": "b" * 5000}}],
    ids=["says nothing", "selects everything", "tolerates", "says too much"],
)
def test_a_waiting_pod_that_nothing_confines_is_not_kept(spec: dict[str, Any]) -> None:
    assert not state([node("a")], [pod("p", **spec)]).other_pods.waiting


def test_the_number_of_waiting_pods_is_bounded() -> None:
    assert len(state([], [pod(f"p{n}", nodeSelector={"a": "b"}) for n in range(1000)]).other_pods.waiting) == 256
