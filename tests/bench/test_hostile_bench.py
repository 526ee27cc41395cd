"""The benchmark of hostile bodies and tenants runs, and gives the cost of a row. What the figures are is not judged here.

`tests/test_hostile.py` and `tests/test_tenants.py` have all rows.
"""

import json
import subprocess
import sys
from pathlib import Path

BODY, COST, OUTCOME = (
    "250 tolerations",
    "10,000 Jobs of one JobSet",
    "4,200 pods without an owner, created and deleted",
)


def test_a_row_is_measured_without_the_tenant_and_with_him(tmp_path: Path) -> None:
    nodes = 30
    short = ["--nodes", str(nodes), "--reviews", "2", "--scale", "0.01", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "bench.hostile", *short, BODY, COST, OUTCOME]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # 1: a figure is past its bound
    assert ran.returncode in (0, 1), ran.stderr
    found = json.loads((tmp_path / "hostile.json").read_text())
    for many in (nodes, 4 * nodes):
        assert len(found.pop(f"{COST}, {many} nodes")) == 4, ran.stderr
    assert None not in found.pop(OUTCOME), ran.stderr
    ((body, cost),) = found.items()
    assert BODY in body
    assert cost["seconds"] > 0
