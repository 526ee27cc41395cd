"""Each rule on the tables in its test file, by what a row shows: ALLOWED, REFUSED, and WARNED for what a rule that denies only
warns about."""

import importlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import EMPTY, GPUS, POOLS, TWO_NODES, UNKNOWN, Case, ClusterFacts
from tests.effort import times
from tests.rules.test_contract import NAMES, RULES
from tests.strategies import WRONG, damaged
from webhook.admission.record import MAX_WARNING_LENGTH
from webhook.errors import BadPod
from webhook.framework.interface import Rule
from webhook.kube.asked import AskedPod
from webhook.kube.pod_schema import check

LONGEST_MESSAGE = 2000
ROWS = []
for _name in NAMES:
    _tests = importlib.import_module(f"tests.rules.test_{_name}")
    for _table in ("ALLOWED", "REFUSED", "WARNED"):
        for _row, _shows in [(each.values, each.id) for each in getattr(_tests, _table, [])]:
            _case, _messages = _row if _table != "ALLOWED" else (*_row, [])
            _id = f"{_name}, {_table.lower()}: {_shows}"
            ROWS.append(pytest.param(_tests.RULE, _case, _messages, _table == "WARNED", id=_id))


@pytest.mark.parametrize(("rule", "row", "messages", "only_warns"), ROWS)
def test_a_rule_finds_what_its_tables_say(rule: Rule, row: Case, messages: list[str], only_warns: bool) -> None:
    findings = row.findings(rule)
    assert [finding.message for finding in findings] == messages
    for finding in findings:
        assert finding.only_warn is only_warns
        if (only_warns or rule.action == "warn") and "…" not in finding.seen:
            assert len(finding.brief(0)) <= MAX_WARNING_LENGTH - 24, (
                "it is shown as a warning, after the name of the rule"
            )


@given(
    st.sampled_from([row.values[1] for row in ROWS]),
    WRONG | st.sampled_from(["\n\u202e\x00", "x" * 300]),
    st.randoms(use_true_random=False),
    st.sampled_from([EMPTY, UNKNOWN, TWO_NODES, POOLS]),
)
@times(5)
def test_no_pod_makes_a_rule_fail_and_its_findings_are_printable_and_repeatable(
    row: Case, wrong: Any, rng: random.Random, cluster: ClusterFacts
) -> None:
    """Pods of all tables with a value that is wrong, as far as the mutating hook lets them pass."""
    try:
        made = check(damaged(row.pod, wrong, rng))
    except BadPod:
        return
    context = row.context._replace(cluster=cluster.view, pod=AskedPod(made, GPUS))
    for name, rule in RULES.items():
        messages = Case(made, context).messages(rule)
        assert messages == Case(made, context).messages(rule), name
        for message in messages:
            assert message.isprintable(), (name, message)
            assert len(message) <= LONGEST_MESSAGE, (name, message)
