"""Which pods a PodDisruptionBudget covers, and what is kept of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.objects import state
from webhook.cluster.state import ClusterState

LABELS = {"app": "chat", "tier": "gpu"}


def budget(selector: Any, name: str = "chat", namespace: str = "team-a") -> dict[str, Any]:
    spec = {"minAvailable": 1} | ({} if selector is None else {"selector": selector})
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    found = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    return {"matchExpressions": [found]}


def with_budgets(*budgets: dict[str, Any]) -> ClusterState:
    of = state()
    of.replace("poddisruptionbudgets", budgets, 0)
    return of


COVERED: dict[str, Any] = {
    "an empty selector takes every pod of its namespace": {},
    "its label": {"matchLabels": {"app": "chat"}},
    "all its labels": {"matchLabels": LABELS},
    "In, one of the values": expression("app", "In", "search", "chat"),
    "NotIn, another value": expression("app", "NotIn", "search"),
    "NotIn, a label that the pod does not have": expression("team", "NotIn", "x"),
    "Exists": expression("tier", "Exists"),
    "DoesNotExist": expression("team", "DoesNotExist"),
    "labels and expressions": {"matchLabels": {"app": "chat"}, **expression("tier", "In", "gpu")},
}
NOT_COVERED: dict[str, Any] = {
    "no selector takes no pod": None,
    "another value": {"matchLabels": {"app": "search"}},
    "one label of two": {"matchLabels": {"app": "chat", "tier": "web"}},
    "In, none of the values": expression("app", "In", "search"),
    "In, a label that the pod does not have": expression("team", "In", "x"),
    "NotIn, its value": expression("app", "NotIn", "chat"),
    "Exists, a label that the pod does not have": expression("team", "Exists"),
    "DoesNotExist, a label that the pod has": expression("tier", "DoesNotExist"),
    "labels that hold and an expression that does not": {"matchLabels": LABELS, **expression("app", "NotIn", "chat")},
    "expressions that hold and a label that does not": {"matchLabels": {"a": "b"}, **expression("app", "Exists")},
}


@pytest.mark.parametrize("selector", NOT_COVERED.values(), ids=NOT_COVERED)
def test_a_pod_that_the_selector_does_not_match_is_not_covered(selector: Any) -> None:
    assert with_budgets(budget(selector)).view(0).budget_covers("team-a", LABELS) is False


@pytest.mark.parametrize("selector", COVERED.values(), ids=COVERED)
def test_a_pod_that_the_selector_matches_is_covered(selector: Any) -> None:
    seen = with_budgets(budget(selector)).view(0)
    assert seen.budget_covers("team-a", LABELS) is True
    assert seen.budget_covers("team-b", LABELS) is False, "a budget is for its own namespace"


def test_one_budget_of_several_is_enough() -> None:
    of = with_budgets(budget({"matchLabels": {"app": "search"}}, "search"), budget({"matchLabels": LABELS}))
    assert of.view(0).budget_covers("team-a", LABELS) is True


def test_nothing_is_known_before_budgets_were_listed_nor_from_a_stale_state() -> None:
    assert state().view(0).budget_covers("team-a", LABELS) is None
    of = with_budgets()
    assert of.view(0).budget_covers("team-a", LABELS) is False
    assert of.view(1e6).budget_covers("team-a", LABELS) is None


def test_budgets_that_we_may_not_read_any_more_are_forgotten_and_the_state_stays_fresh() -> None:
    of = with_budgets(budget({}))
    of.withdraw("poddisruptionbudgets")
    assert of.view(0).budget_covers("team-a", LABELS) is None
    assert of.view(0).fresh
    of.replace("poddisruptionbudgets", [], 1)
    assert of.view(1).budget_covers("team-a", LABELS) is False


def test_a_budget_that_was_changed_or_deleted_no_longer_covers() -> None:
    of = with_budgets(budget({}), budget({}, namespace="team-b"))
    of.budgets.seen(budget({"matchLabels": {"app": "search"}}))
    assert of.view(0).budget_covers("team-a", LABELS) is False
    of.budgets.gone("team-b/chat")
    of.budgets.gone("team-b/chat")
    assert of.view(0).budget_covers("team-b", LABELS) is False
    assert of.known("poddisruptionbudgets") == ["team-a/chat"]


def test_budgets_that_are_not_in_a_new_list_are_forgotten() -> None:
    of = with_budgets(budget({}), budget({}, namespace="team-b"))
    of.replace("poddisruptionbudgets", [budget({}, namespace="team-b")], 1)
    assert of.known("poddisruptionbudgets") == ["team-b/chat"]


def test_with_a_selector_or_a_namespace_that_is_too_large_the_answer_is_unknown() -> None:
    large = budget(expression("team", "In", *map(str, range(2000))), "large")
    assert with_budgets(large).view(0).budget_covers("team-a", LABELS) is None
    assert with_budgets(large, budget({})).view(0).budget_covers("team-a", LABELS) is True
    many = [budget(None, f"b{n}") for n in range(1001)]
    assert with_budgets(*many).view(0).budget_covers("team-a", LABELS) is None


@pytest.mark.parametrize(
    "selector",
    [
        pytest.param(expression("app", "Gt", "1"), id="an unknown operator"),
        pytest.param({"matchExpressions": [{}]}, id="an expression without a key"),
        pytest.param({"matchLabels": {"app": []}}, id="a value that is a list"),
        pytest.param("app=chat", id="text"),
    ],
)
def test_a_malformed_selector_raises(selector: Any) -> None:
    with pytest.raises((ValueError, LookupError, TypeError, AttributeError)):
        state().budgets.seen(budget(selector))
