"""The benchmark of hostile bodies and tenants runs, and gives the cost of each row. What the figures are is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

from bench.tenant_cases import COSTS, OUTCOMES

BODY = "250 tolerations"


def test_a_body_and_all_that_a_tenant_can_leave_is_measured_without_it_and_with_it(tmp_path: Path) -> None:
    nodes = 30
    short = ["--nodes", str(nodes), "--reviews", "2", "--scale", "0.01", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "bench.hostile", *short, BODY, *COSTS, *OUTCOMES]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # 1: a figure is past its bound
    assert ran.returncode in (0, 1), ran.stderr
    found = json.loads((tmp_path / "hostile.json").read_text())
    costs = {f"{name}, {many} nodes": found[f"{name}, {many} nodes"] for name in COSTS for many in (nodes, 4 * nodes)}
    assert [name for name, numbers in costs.items() if not numbers or len(numbers) != 4] == [], ran.stderr
    outcomes = {name: found[name] for name in OUTCOMES}
    assert [name for name, numbers in outcomes.items() if None in numbers] == [], ran.stderr
    assert all(numbers[0][0] > 0 for numbers in outcomes.values()), "without the tenant, the other gets something"
    ((body, cost),) = [(name, each) for name, each in found.items() if name not in {*costs, *outcomes}]
    assert BODY in body
    assert cost["seconds"] > 0
