"""The benchmark of choices runs, and measures what it says."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


def test_the_benchmark_gives_a_table_json_and_a_chart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.choose", "--nodes", "70", "--choices", "40", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "70" in done.stdout
    (found,) = json.loads((tmp_path / "choose.json").read_text())
    assert (found["nodes"], found["choose"]["n"]) == (70, 40)
    assert 0 < found["choose"]["cpu_p50_us"] <= found["choose"]["cpu_p99_us"]
    assert found["memory_mib"] > 0
    ElementTree.parse(tmp_path / "choose.svg")
