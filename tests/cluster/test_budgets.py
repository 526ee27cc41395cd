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


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        pytest.param(None, False, id="no selector takes no pod"),
        pytest.param({}, True, id="an empty selector takes every pod of its namespace"),
        pytest.param({"matchLabels": LABELS}, True, id="all its labels"),
        pytest.param({"matchLabels": {"app": "chat", "tier": "web"}}, False, id="one label of two"),
        pytest.param(expression("app", "In", "search", "chat"), True, id="In, one of the values"),
        pytest.param(expression("app", "In", "search"), False, id="In, none of the values"),
        pytest.param(expression("team", "In", "x"), False, id="In, a label that the pod does not have"),
        pytest.param(expression("app", "NotIn", "search"), True, id="NotIn, another value"),
        pytest.param(expression("app", "NotIn", "chat"), False, id="NotIn, its value"),
        pytest.param(expression("team", "NotIn", "x"), True, id="NotIn, a label that the pod does not have"),
        pytest.param(expression("tier", "Exists"), True, id="Exists"),
        pytest.param(expression("team", "Exists"), False, id="Exists, a label that the pod does not have"),
        pytest.param(expression("team", "DoesNotExist"), True, id="DoesNotExist"),
        pytest.param(expression("tier", "DoesNotExist"), False, id="DoesNotExist, a label that the pod has"),
        pytest.param({"matchLabels": LABELS, **expression("app", "NotIn", "chat")}, False, id="labels hold, not both"),
        pytest.param({"matchLabels": {"a": "b"}, **expression("app", "Exists")}, False, id="an expression, not both"),
    ],
)
def test_a_budget_covers_the_pods_of_its_namespace_that_it_selects(selector: Any, covered: bool) -> None:
    seen = with_budgets(budget(selector), budget({"matchLabels": {"app": "search"}}, "other")).view(0)
    assert seen.budget_covers("team-a", LABELS) is covered
    assert seen.budget_covers("team-b", LABELS) is False


def test_nothing_is_known_before_budgets_were_listed_nor_from_a_stale_state() -> None:
    assert state().view(0).budget_covers("team-a", LABELS) is None
    of = with_budgets()
    assert of.view(0).budget_covers("team-a", LABELS) is False
    assert of.view(1e6).budget_covers("team-a", LABELS) is None


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
def test_a_malformed_selector_changes_nothing(selector: Any) -> None:
    of = with_budgets(budget({}))
    with pytest.raises((ValueError, LookupError, TypeError, AttributeError)):
        of.budgets.seen(budget(selector))
    assert of.view(0).budget_covers("team-a", LABELS) is True
