"""The benchmark of hostile bodies runs, and gives a body's cost."""

from __future__ import annotations

import subprocess
import sys


def test_a_body_is_measured() -> None:
    command = [sys.executable, "-m", "bench.hostile", "--nodes", "5", "250 tolerations"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "1 bodies, 0 cost more" in found
