"""Taints that a policy may name, and which taints a toleration matches."""

from typing import Any

import pytest

from webhook.framework.taints import AllowedTaint, PolicyTaint, matched, tolerates


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "a toleration without a key tolerates every taint"),
        ("*", "a toleration without a key tolerates every taint"),
        ("nvidia.com/*", "a toleration without a key tolerates every taint"),
        ("node.kubernetes.io/unschedulable", "this would tolerate nodes that are not ready"),
        ("node-role.kubernetes.io/control-plane", "this would tolerate nodes that are not ready"),
        ("not a key", "String should match pattern"),
    ],
)
def test_a_taint_that_must_not_be_tolerated_is_refused_in_a_policy(key: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        PolicyTaint(key=key)


@pytest.mark.parametrize(
    "key",
    [
        *("", "*", "n*", "node*", "node.kubernetes.io/*", "node.kubernetes.io/not*", "node.kubernetes.io/not-ready"),
        *("node-role.kubernetes.io/*", "node-role.kubernetes.io/master", "node.cloudprovider.kubernetes.io/shutdown"),
    ],
)
def test_a_pattern_that_matches_a_taint_of_kubernetes_is_refused_in_a_policy(key: str) -> None:
    with pytest.raises(ValueError, match="this would tolerate nodes that are not ready, or control planes"):
        AllowedTaint(key=key)


@pytest.mark.parametrize("key", ["nvidia.com/*", "node-role.kubernetes.io/gpu", "nodes.example.com/gpu"])
def test_a_pattern_of_gpu_taints_is_accepted_in_a_policy(key: str) -> None:
    assert AllowedTaint(key=key).key == key


# The table of k8s.io/api core/v1/toleration_test.go, and what it leaves out.
FOO = ("foo", "bar", "NoSchedule")
TOLERATIONS = {
    "Exists on a taint without a value": ({"key": "foo", "operator": "Exists"}, ("foo", "", "NoSchedule"), True),
    "Exists on any value": ({"key": "foo", "operator": "Exists", "effect": "NoSchedule"}, FOO, True),
    "an empty key is every key": ({"key": "", "operator": "Exists", "effect": "NoSchedule"}, FOO, True),
    "no effect is every effect": ({"operator": "Exists"}, FOO, True),
    "all equal": ({"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"}, FOO, True),
    "no operator is Equal": ({"key": "foo", "value": "bar"}, FOO, True),
    "null is nothing": ({"key": "foo", "operator": None, "value": "bar", "effect": None}, FOO, True),
    "an empty value equals a missing one": ({"key": "foo"}, ("foo", "", "NoExecute"), True),
    "whether a comparison holds is for the scheduler to say": (
        {"key": "foo", "operator": "Gt", "value": "9"},
        FOO,
        True,
    ),
    "any value of a taint": ({"key": "foo", "operator": "Exists"}, ("foo", None, ""), True),
    "another value": ({"key": "foo", "operator": "Equal", "value": "value1", "effect": "NoSchedule"}, FOO, False),
    "another effect": ({"key": "foo", "value": "bar", "effect": "NoExecute"}, FOO, False),
    "another key": ({"key": "fox", "operator": "Exists"}, FOO, False),
    "no value is not any value": ({"key": "foo"}, FOO, False),
    "operators are spelt as they are": ({"key": "foo", "operator": "exists"}, FOO, False),
    "a comparison of another": ({"key": "fox", "operator": "Gt", "value": "1"}, ("foo", "5", "NoSchedule"), False),
    "no key to compare": ({"operator": "Gt", "value": "1"}, FOO, False),
    "no key without Exists": ({"operator": "Equal", "value": "bar"}, FOO, False),
    "nothing at all": ({}, ("foo", "", "NoSchedule"), False),
    "one value of any": ({"key": "foo", "value": "bar"}, ("foo", None, "NoSchedule"), False),
    "one effect of all": ({"key": "foo", "value": "bar", "effect": "NoSchedule"}, ("foo", "bar", ""), False),
}


@pytest.mark.parametrize(("toleration", "taint", "want"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_a_toleration_matches_a_taint(
    toleration: dict[str, Any], taint: tuple[str, str | None, str], want: bool
) -> None:
    found = matched(toleration)
    assert (found is not None and tolerates([found], taint)) is want
