"""`make up` on real programs: what it says is so, and Ctrl-C ends all of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.controlplane.programs import Programs

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).parents[2]


def test_make_up_says_how_to_use_it_and_ends_without_a_trace(programs: Programs, tmp_path: Path) -> None:
    version = ".".join(programs.version.split(".")[:2])
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.up", "--cluster=two-node", f"--k8s={version}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    with process.stdout as out:
        said = ""
        while "Ctrl-C" not in said:
            line = out.readline()
            assert line, f"it ended: {said}"
            said += line
        commands = [line for line in said.splitlines() if line.startswith(("    export", "    alias"))]
        script = "\n".join([*commands, "kubectl get nodes"])
        answer = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=True)
        assert [line.split()[:2] for line in answer.stdout.splitlines()[1:]] == [["two-a", "Ready"], ["two-b", "Ready"]]
        process.send_signal(signal.SIGINT)
        out.read()
    assert process.wait(120) == 0
    deadline = time.monotonic() + 120
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []
