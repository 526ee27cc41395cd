"""Taints that a policy may name, and which toleration covers another."""

from typing import Any

import pytest

from webhook.framework.taints import AllowedTaint, PolicyTaint, covers


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


# --- covers: the tables of pkg/util/tolerations/tolerations_test.go (TestIsSuperset) ----------------------------------

TOLERATIONS: dict[str, dict[str, Any]] = {
    "all": {"operator": "Exists"},
    "all-nosched": {"operator": "Exists", "effect": "NoSchedule"},
    "all-noexec": {"operator": "Exists", "effect": "NoExecute"},
    "foo": {"key": "foo", "operator": "Exists"},
    "foo-bar": {"key": "foo", "operator": "Equal", "value": "bar"},
    "foo-nosched": {"key": "foo", "operator": "Exists", "effect": "NoSchedule"},
    "foo-bar-nosched": {"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"},
    "foo-baz-nosched": {"key": "foo", "operator": "Equal", "value": "baz", "effect": "NoSchedule"},
    "faz-nosched": {"key": "faz", "operator": "Exists", "effect": "NoSchedule"},
    "faz-baz-nosched": {"key": "faz", "operator": "Equal", "value": "baz", "effect": "NoSchedule"},
    "foo-prefnosched": {"key": "foo", "operator": "Exists", "effect": "PreferNoSchedule"},
    "foo-noexec": {"key": "foo", "operator": "Exists", "effect": "NoExecute"},
    "foo-bar-noexec": {"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoExecute"},
    "foo-noexec-10": {"key": "foo", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10},
    "foo-noexec-0": {"key": "foo", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
    "foo-bar-noexec-10": {
        "key": "foo",
        "operator": "Equal",
        "value": "bar",
        "effect": "NoExecute",
        "tolerationSeconds": 10,
    },
}
SUPERSETS = {
    "all": set(TOLERATIONS),
    "all-nosched": {"foo-nosched", "foo-bar-nosched", "foo-baz-nosched", "faz-nosched", "faz-baz-nosched"},
    "all-noexec": {"foo-noexec", "foo-bar-noexec", "foo-noexec-10", "foo-noexec-0", "foo-bar-noexec-10"},
    "foo": {name for name in TOLERATIONS if name.startswith("foo-")},
    "foo-bar": {"foo-bar-nosched", "foo-bar-noexec", "foo-bar-noexec-10"},
    "foo-nosched": {"foo-bar-nosched", "foo-baz-nosched"},
    "faz-nosched": {"faz-baz-nosched"},
    "foo-noexec": {"foo-bar-noexec", "foo-noexec-10", "foo-noexec-0", "foo-bar-noexec-10"},
    "foo-bar-noexec": {"foo-bar-noexec-10"},
    "foo-noexec-10": {"foo-noexec-0", "foo-bar-noexec-10"},
}


@pytest.mark.parametrize("other", TOLERATIONS)
@pytest.mark.parametrize("one", TOLERATIONS)
def test_one_toleration_covers_another_as_upstream_says(one: str, other: str) -> None:
    expected = one == other or other in SUPERSETS.get(one, set())
    assert covers(TOLERATIONS[one], TOLERATIONS[other]) is expected


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        pytest.param(
            {"key": "foo", "value": "bar"},
            {"key": "foo", "value": "bar", "effect": "NoSchedule"},
            False,
            id="upstream's quirk: a missing operator does not cover a missing operator",
        ),
        pytest.param(
            {"key": "foo", "value": "bar"},
            {"key": "foo", "operator": "Equal", "value": "bar"},
            True,
            id="a missing operator covers Equal",
        ),
        pytest.param(
            {"key": "foo", "operator": "Lt", "value": "5"},
            {"key": "foo", "operator": "Exists"},
            True,
            id="whoever tolerates some values is not made to tolerate all",
        ),
        pytest.param(
            {"key": "foo", "operator": "Gt", "value": "5"},
            {"key": "bar", "operator": "Exists"},
            False,
            id="another key",
        ),
        pytest.param({"key": "foo", "operator": "no"}, {"key": "foo", "operator": "Exists"}, False, id="no operator"),
        pytest.param(
            {"key": "foo", "operator": "no"}, {"key": "foo", "operator": "no"}, True, id="…but it equals itself"
        ),
        pytest.param(
            {"key": None, "operator": "Exists", "effect": None}, {"key": "a", "operator": "Exists"}, True, id="nulls"
        ),
        pytest.param({"key": "", "operator": "Equal"}, {"key": "a", "operator": "Equal"}, False, id="no key, Equal"),
    ],
)
def test_the_odd_cases_of_covers(one: dict[str, Any], other: dict[str, Any], want: bool) -> None:
    assert covers(one, other) is want
