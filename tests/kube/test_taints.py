"""What a taint says of its node, and which taints a toleration matches."""

from typing import Any

import pytest

from webhook.kube.taints import Taint, kind_of, matched, passes, tolerates

# The table of k8s.io/api core/v1/toleration_test.go, and what it leaves out.
FOO = ("foo", "bar", "NoSchedule")
TOLERATIONS = [
    pytest.param(
        {"key": "foo", "operator": "Exists"}, ("foo", "", "NoSchedule"), True, id="Exists on a taint without a value"
    ),
    pytest.param({"key": "foo", "operator": "Exists", "effect": "NoSchedule"}, FOO, True, id="Exists on any value"),
    pytest.param({"key": "", "operator": "Exists", "effect": "NoSchedule"}, FOO, True, id="an empty key is every key"),
    pytest.param({"operator": "Exists"}, FOO, True, id="no effect is every effect"),
    pytest.param(
        {"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"}, FOO, True, id="all equal"
    ),
    pytest.param({"key": "foo", "value": "bar"}, FOO, True, id="no operator is Equal"),
    pytest.param({"key": "foo", "operator": None, "value": "bar", "effect": None}, FOO, True, id="null is nothing"),
    pytest.param({"key": "foo"}, ("foo", "", "NoExecute"), True, id="an empty value equals a missing one"),
    pytest.param(
        {"key": "foo", "operator": "Gt", "value": "9"},
        FOO,
        True,
        id="whether a comparison holds is for the scheduler to say",
    ),
    pytest.param({"key": "foo", "operator": "Exists"}, ("foo", None, ""), True, id="any value of a taint"),
    pytest.param(
        {"key": "foo", "operator": "Equal", "value": "value1", "effect": "NoSchedule"}, FOO, False, id="another value"
    ),
    pytest.param({"key": "foo", "value": "bar", "effect": "NoExecute"}, FOO, False, id="another effect"),
    pytest.param({"key": "fox", "operator": "Exists"}, FOO, False, id="another key"),
    pytest.param({"key": "foo"}, FOO, False, id="no value is not any value"),
    pytest.param({"key": "foo", "operator": "exists"}, FOO, False, id="operators are spelt as they are"),
    pytest.param(
        {"key": "fox", "operator": "Gt", "value": "1"}, ("foo", "5", "NoSchedule"), False, id="a comparison of another"
    ),
    pytest.param({"operator": "Gt", "value": "1"}, FOO, False, id="no key to compare"),
    pytest.param({"operator": "Equal", "value": "bar"}, FOO, False, id="no key without Exists"),
    pytest.param({}, ("foo", "", "NoSchedule"), False, id="nothing at all"),
    pytest.param({"key": "foo", "value": "bar"}, ("foo", None, "NoSchedule"), False, id="one value of any"),
    pytest.param(
        {"key": "foo", "value": "bar", "effect": "NoSchedule"}, ("foo", "bar", ""), False, id="one effect of all"
    ),
]


@pytest.mark.parametrize(("toleration", "taint", "want"), TOLERATIONS)
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
