"""What a taint says of its node, and which taints a toleration matches."""

from typing import Any

import pytest

from webhook.kube.taints import Taint, kind_of, matched, passes, tolerates

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


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("node.kubernetes.io/not-ready", "", "condition"),
        ("node.kubernetes.io/out-of-service", "nodeshutdown", "leaving"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "true", "starting"),
        ("ToBeDeletedByClusterAutoscaler", "1680700000", "leaving"),
        ("karpenter.sh/disruption", "disrupting", "leaving"),
        ("karpenter.sh/unregistered", "", "starting"),
        ("aws-node-termination-handler/spot-itn", "", "leaving"),
        ("node.cilium.io/agent-not-ready", "", "starting"),
        ("nvidia.com/gpu", "present", "gpu"),
        ("sku", "gpu", "gpu"),
        ("sku", "cpu", "other"),
        ("karpenter.sh/capacity-type", "spot", "other"),
        ("kubernetes.azure.com/scalesetpriority", "spot", "other"),
        ("node-role.kubernetes.io/control-plane", "", "other"),
        ("", "", "other"),
    ],
)
def test_a_taint_says_what_its_node_is(key: str, value: str, kind: str) -> None:
    taint = Taint(key, value, "NoSchedule")
    assert kind_of(taint) == kind
    assert passes(taint) is (kind in ("condition", "leaving", "starting"))
