"""The benchmark of one pod runs, and every reservation ends in each round (it asserts that)."""

import subprocess
import sys


def test_both_kinds_of_pods_go_through_both_hooks() -> None:
    command = [sys.executable, "-m", "bench.loop", "--nodes", "20", "--pods", "20", "--rounds", "1"]
    command += ["--replicas", "20", "--bursts", "1"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (all_,) = [line.split("│")[2:4] for line in found.splitlines() if line.startswith("│ all ")]
    admitted, refused = map(float, all_)
    assert admitted > 0
    assert refused > 0
    (seen,) = [line.split("│")[2:4] for line in found.splitlines() if line.startswith("│ seen in the watch ")]
    assert not seen[1].strip(), "nobody sees a pod that was refused"
