"""Which labels a selector takes: what differs from a look into a map is in the table of test_budgets."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.kube.selectors import compiled, takes


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        pytest.param(None, False, id="none takes nothing"),
        pytest.param({}, True, id="an empty one takes everything"),
        pytest.param({"matchLabels": {"app": "chat"}}, True, id="a label"),
        pytest.param({"matchLabels": {"app": "search"}}, False, id="another value"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True, id="an expression"),
        pytest.param({"matchLabels": {f"k{n}": "v" for n in range(200)}}, None, id="too large to be kept"),
    ],
)
def test_what_a_selector_takes(selector: dict[str, Any] | None, taken: bool | None) -> None:
    assert takes(compiled(selector), {"app": "chat"}) is taken


def test_an_operator_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="operator 'Near'"):
        compiled({"matchExpressions": [{"key": "app", "operator": "Near"}]})
