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


QUIET = {
    "no labels": (None, {}),
    "a profile of the policy": ({PROFILE: "strict"}, {}),
    "no value, which means the default profile": ({PROFILE: ""}, {}),
    "a class of the policy": ({CLASS + "inference-critical": ""}, {}),
    "a label that was there before": ({PROFILE: "strickt", "team": "a"}, {PROFILE: "strickt"}),
    "labels of others": ({"team": "gpu-admission.io", "example.com/profile": "strickt"}, {}),
}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(("labels", "before"), QUIET.values(), ids=QUIET)
def test_nothing_is_said_about(labels: Any, before: dict[str, str], operation: str) -> None:
    if before and operation == "CREATE":
        return
    assert judged(labels, before, operation) == Decision("allowed", policy=POLICY.hash)


def test_a_deletion_is_ignored() -> None:
    assert judged({PROFILE: "strickt"}, operation="DELETE").result == "ignored"


WARNED = {
    "a misspelt profile": (
        {PROFILE: "strickt"},
        f'label {PROFILE}: the policy has no profile "strickt", so "default" is used; did you mean "strict"?',
    ),
    "a profile that is like none": (
        {PROFILE: "gold"},
        f'label {PROFILE}: the policy has no profile "gold", so "default" is used; it has "default", "strict"',
    ),
    "a class": (
        {CLASS + "inferense-critical": ""},
        f'label {CLASS}inferense-critical: the policy has no class "inferense-critical"; did you mean "inference-critical"?',
    ),
    "a misspelt key": (
        {"gpu-admission.io/profil": "default"},
        f"label gpu-admission.io/profil means nothing; did you mean {PROFILE}?",
    ),
}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(("labels", "warning"), WARNED.values(), ids=WARNED)
def test_there_is_a_warning_about(labels: dict[str, str], warning: str, operation: str) -> None:
    decision = judged(labels, {PROFILE: "default"}, operation)
    assert decision.result == "allowed"
    assert warnings_of(decision) == [warning]


def test_many_labels_give_few_warnings() -> None:
    many = {f"{CLASS}{'x' * 50}{number}": "" for number in range(5000)}
    assert len(judged(many).warnings) == 5
