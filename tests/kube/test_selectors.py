"""Which labels a selector selects. More cases of each operator are in the table of test_budgets."""

from typing import Any

import pytest

from webhook.kube.selectors import compiled, selects


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(None, False, id="a missing one selects nothing"),
        pytest.param({}, True, id="an empty one selects everything"),
        pytest.param({"matchLabels": {"app": "chat"}}, True, id="a label"),
        pytest.param({"matchLabels": {"app": "search"}}, False, id="another value"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True, id="an expression"),
        pytest.param({"matchLabels": {f"k{n}": "v" for n in range(200)}}, None, id="too large: unknown"),
    ],
)
def test_selects(selector: dict[str, Any] | None, want: bool | None) -> None:
    assert selects(compiled(selector), {"app": "chat"}) is want


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="operator 'Near'"):
        compiled({"matchExpressions": [{"key": "app", "operator": "Near"}]})
