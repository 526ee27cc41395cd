"""The dashboard by the rules of Grafana's dashboard-linter that find real faults."""

import re
from collections import Counter
from typing import Any

import pytest

from tests.manifests.monitoring.files import dashboard, panels
from tests.manifests.monitoring.promql import calls, selectors

BOARD = dashboard()
PANELS = [pytest.param(panel, id=panel["title"]) for panel in panels()]
OURS = ("gpu_admission_", "process_")
RATES = {"rate", "increase"}


def test_it_has_an_address_of_its_own_and_cannot_be_edited_by_chance() -> None:
    assert (BOARD["uid"], BOARD["editable"]) == ("gpu-admission", False)


def test_data_source_job_and_replica_are_variables() -> None:
    assert [variable["name"] for variable in BOARD["templating"]["list"]] == ["datasource", "job", "instance"]
    found = re.findall(r"'uid': '([^']+)'", str(BOARD["panels"]) + str(BOARD["templating"]))
    assert set(found) == {"${datasource}"}


def test_the_rows_answer_five_questions() -> None:
    rows = [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"]
    assert rows == ["Is it in the way?", "What did it do?", "Did it choose well?", "GPUs", "Itself"]


def test_nothing_lies_over_something_else() -> None:
    cells: Counter[tuple[int, int]] = Counter()
    for at in (panel["gridPos"] for panel in BOARD["panels"]):
        assert at["x"] + at["w"] <= 24
        cells.update((at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"]))
    assert max(cells.values()) == 1
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert all(target["legendFormat"] and not target.get("hide") for target in panel["targets"])
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("panel", PANELS)
def test_a_query_is_for_the_chosen_replicas_and_the_time_between_two_points(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        expr: str = target["expr"]
        assert re.findall(r"\[([^].]+)\]", expr) == ["$__rate_interval"] * expr.count("rate(")
        parsed = expr.replace("$__rate_interval", "5m")
        for selector in selectors(parsed):
            if selector.name.startswith(OURS):
                assert {"job", "instance"} <= {*selector.labels}, selector
        rated = {selector.name for call in calls(parsed) if call.name in RATES for selector in call.of}
        counters = {s.name for s in selectors(parsed) if s.name.endswith(("_total", "_bucket", "_count"))}
        assert counters <= rated
