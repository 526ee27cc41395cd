"""Each rule on the tables in its test file, by what a row shows: ALLOWED, REFUSED, and WARNED for what a rule that denies only
warns about."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import Case
from tests.rules.test_contract import NAMES
from webhook.framework.interface import Rule


def rows() -> Iterator[Any]:
    for name in NAMES:
        tests = importlib.import_module(f"tests.rules.test_{name}")
        for shows, row in tests.ALLOWED.items():
            yield pytest.param(tests.RULE, row, [], False, id=f"{name}, allowed: {shows}")
        for table, only_warns in (("REFUSED", False), ("WARNED", True)):
            for shows, (row, messages) in getattr(tests, table, {}).items():
                yield pytest.param(tests.RULE, row, messages, only_warns, id=f"{name}, {table.lower()}: {shows}")


@pytest.mark.parametrize(("rule", "row", "messages", "only_warns"), [*rows()])
def test_a_rule_finds_what_its_tables_say(rule: Rule, row: Case, messages: list[str], only_warns: bool) -> None:
    assert row.messages(rule) == messages
    assert all(finding.only_warn is only_warns for finding in row.findings(rule))
