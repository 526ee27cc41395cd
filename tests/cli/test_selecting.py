"""Selectors: as kubectl takes them, and as objects hold them."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.cli.selecting import selector, selects
from webhook.errors import BadInput

LABELS = {"app": "chat", "tier": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        (None, True), ("", True), ("app=chat", True), ("app==chat", True), ("app=web", False), ("app!=web", True),
        ("app!=chat", False), ("other!=x", True), ("app", True), ("other", False), ("!other", True), ("!app", False),
        ("app in (web, chat)", True), ("app notin (web)", True), ("app notin (chat)", False), ("tier=", True),
        ("app=chat,tier", True), ("app=chat,!tier", False), ("app in (a,b),tier", False),
    ],
)  # fmt: skip
def test_as_kubectl_takes_them(text: str | None, matches: bool) -> None:
    assert selector(text)(LABELS) is matches


@pytest.mark.parametrize("text", ["a b", "a~b", "a=b~c", "=x", "a in b", "a=b=c", "a in (b"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"^-l: saw .*, wanted labels as a=b"):
        selector(text)


@pytest.mark.parametrize(
    ("held", "matches"),
    [
        pytest.param(None, False, id="none matches nothing"),
        pytest.param({}, True, id="an empty one everything"),
        pytest.param({"matchLabels": {"app": "chat"}}, True, id="a label"),
        pytest.param({"matchLabels": {"app": "web"}}, False, id="another"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "In", "values": ["chat"]}]}, True, id="In"),
        pytest.param({"matchExpressions": [{"key": "no", "operator": "NotIn", "values": ["x"]}]}, True, id="NotIn"),
        pytest.param({"matchExpressions": [{"key": "no", "operator": "Exists"}]}, False, id="Exists"),
        pytest.param({"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]}, True, id="DoesNotExist"),
        pytest.param({"matchExpressions": [{"key": "no", "operator": "New"}]}, False, id="what a later version knows"),
    ],
)
def test_as_objects_hold_them(held: Any, matches: bool) -> None:
    assert selects(held, LABELS) is matches
