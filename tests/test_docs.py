"""docs/rules.md says of every rule what the rule says of itself."""

from __future__ import annotations

import sys
from pathlib import Path

from webhook.policy import Rules

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_the_page_of_rules_has_every_rule_in_order_with_its_action_and_its_first_line() -> None:
    rules, expected = Rules(), []
    for name, field in Rules.model_fields.items():
        rule = getattr(rules, name)
        first, *_ = (sys.modules[type(rule).__module__].__doc__ or "").splitlines()
        expected.append(f"| [{field.alias}](../webhook/rules/{name}.py) | {rule.action} | {first.rstrip('.')} |")
    lines = (DOCS / "rules.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("| [")] == expected
