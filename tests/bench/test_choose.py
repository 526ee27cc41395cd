"""The benchmark of choices runs, and measures what it says."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.choose import Stopwatch
from bench.plot import lines

ROOT = Path(__file__).parents[2]


def test_the_benchmark_gives_a_table_json_and_a_chart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.choose", "--nodes", "70,140", "--choices", "40", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "140" in done.stdout
    results = json.loads((tmp_path / "choose.json").read_text())
    assert [found["nodes"] for found in results] == [70, 140]
    for found in results:
        assert found["choose"]["n"] == 40
        assert 0 < found["choose"]["cpu_p50_us"] <= found["choose"]["cpu_p99_us"]
        assert found["memory_mib"] > 0
    ElementTree.parse(tmp_path / "choose.svg")


def test_on_a_busy_machine_no_choice_may_be_quiet() -> None:
    watch = Stopwatch()
    with watch:
        pass
    assert watch.summary([False])["n"] == 1
    assert watch.summary([True])["n"] == 1


@pytest.mark.parametrize(
    "points",
    [
        pytest.param([(1.0, 1.0)], id="one point"),
        pytest.param([(0.0, 0.0), (0.0, 0.0)], id="nothing but zeros"),
        pytest.param([(1.0, -5.0), (2.0, 7.3)], id="below and above zero"),
        pytest.param([], id="no point"),
    ],
)
def test_a_chart_of_any_points_is_well_formed(points: list[tuple[float, float]]) -> None:
    root = ElementTree.fromstring(lines("a < b & c", "x", "y", {"<one>": points}))
    assert "a < b & c" in [element.text for element in root]


def test_a_logarithmic_chart_puts_equal_ratios_at_equal_distances() -> None:
    root = ElementTree.fromstring(lines("t", "x", "y", {"s": [(1, 1), (10, 10), (100, 100)]}, log=(True, True)))
    line = next(element for element in root if element.tag.endswith("polyline"))
    (x0, _), (x1, _), (x2, _) = (map(float, pair.split(",")) for pair in line.attrib["points"].split())
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
