"""Label selectors of kubectl and of objects."""

from typing import Any

import pytest

from webhook.cli.reading import selector
from webhook.errors import BadInput
from webhook.kube import selectors

LABELS = {"app": "chat", "tier": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        (None, True), ("", True), ("app=chat", True), ("app==chat", True), ("app=web", False), ("app!=web", True),
        ("app!=chat", False), ("other!=x", True), ("app", True), ("other", False), ("!other", True), ("!app", False),
        ("app in (web, chat)", True), ("app in(web,chat)", True), ("app notin (web)", True), ("app notin (chat)", False), ("tier=", True),
        ("app=chat,tier", True), ("app=chat,!tier", False), ("app in (a,b),tier", False),
    ],
)  # fmt: skip
def test_a_selector_of_kubectl(text: str | None, matches: bool) -> None:
    assert selector(text)(LABELS) is matches


@pytest.mark.parametrize("text", ["a b", "a~b", "a=b~c", "=x", "a in b", "a=b=c", "a in (b"])
def test_text_that_is_not_a_selector_is_an_error(text: str) -> None:
    with pytest.raises(BadInput, match=r"^-l: saw .*, wanted labels as a=b"):
        selector(text)


@pytest.mark.parametrize(
    ("label_selector", "matches"),
    [
        pytest.param(None, False, id="no selector matches nothing"),
        pytest.param({}, True, id="an empty selector matches everything"),
        pytest.param({"matchLabels": {"app": "chat"}}, True, id="a label"),
        pytest.param({"matchExpressions": [{"key": "no", "operator": "New"}]}, False, id="an unknown operator"),
    ],
)
def test_a_label_selector_of_an_object(label_selector: Any, matches: bool) -> None:
    assert selectors.matches(label_selector, LABELS) is matches
