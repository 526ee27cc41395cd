"""The labels of a namespace at `kubectl label`."""

from typing import Any

import pytest

from tests.builders import request
from webhook.admission import namespaces
from webhook.admission.decision import Decision
from webhook.admission.response import warnings_of
from webhook.policy.model import Policy

POLICY = Policy.load("profiles: {default: {}, strict: {}}")
PROFILE, CLASS = "gpu-admission.io/profile", "class.gpu-admission.io/"


def judged(labels: Any, before: dict[str, str] | None = None, operation: str = "UPDATE") -> Decision:
    """The decision about a namespace that gets these labels."""
    old = {"metadata": {"name": "x", "labels": before or {}}} if operation == "UPDATE" else None
    obj = {"metadata": {"name": "x", "labels": labels}}
    named = {"kind": "Namespace", "resource": "namespaces", "namespace": "x", "name": "x"}
    return namespaces.validate(request(obj, old, operation=operation, **named), POLICY)


QUIET = [
    pytest.param(None, {}, id="no labels"),
    pytest.param({PROFILE: "strict"}, {}, id="a profile of the policy"),
    pytest.param({PROFILE: ""}, {}, id="no value, which means the default profile"),
    pytest.param({CLASS + "inference-critical": ""}, {}, id="a class of the policy"),
    pytest.param({PROFILE: "strickt", "team": "a"}, {PROFILE: "strickt"}, id="a label that was there before"),
    pytest.param({"team": "gpu-admission.io", "example.com/profile": "strickt"}, {}, id="labels of others"),
]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(("labels", "before"), QUIET)
def test_nothing_is_said_about(labels: Any, before: dict[str, str], operation: str) -> None:
    if before and operation == "CREATE":
        return
    assert judged(labels, before, operation) == Decision("allowed", policy=POLICY.hash)


def test_a_deletion_is_ignored() -> None:
    assert judged({PROFILE: "strickt"}, operation="DELETE").result == "ignored"


WARNED = [
    pytest.param(
        {PROFILE: "strickt"},
        f'label {PROFILE}: the policy has no profile "strickt", so "default" is used; did you mean "strict"?',
        id="a misspelt profile",
    ),
    pytest.param(
        {PROFILE: "gold"},
        f'label {PROFILE}: the policy has no profile "gold", so "default" is used; it has "default", "strict"',
        id="a profile that is like none",
    ),
    pytest.param(
        {CLASS + "inferense-critical": ""},
        f'label {CLASS}inferense-critical: the policy has no class "inferense-critical"; did you mean "inference-critical"?',
        id="a class",
    ),
    pytest.param(
        {"gpu-admission.io/profil": "default"},
        f"label gpu-admission.io/profil means nothing; did you mean {PROFILE}?",
        id="a misspelt key",
    ),
]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(("labels", "warning"), WARNED)
def test_there_is_a_warning_about(labels: dict[str, str], warning: str, operation: str) -> None:
    decision = judged(labels, {PROFILE: "default"}, operation)
    assert decision.result == "allowed"
    assert warnings_of(decision) == [warning]


def test_many_labels_give_few_warnings() -> None:
    many = {f"{CLASS}{'x' * 50}{number}": "" for number in range(5000)}
    assert len(judged(many).warnings) == 5
