"""Programs as child processes: none outlives a run, and what fails is told with its last words."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.controlplane.process import Program, wait_for

ROOT = Path(__file__).parents[2]


def test_what_a_killed_process_started_ends_and_its_folder_goes(tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    folder.mkdir()
    script = f"""
import os, pathlib, signal
from tests.controlplane.process import Guard, Program
folder = pathlib.Path({str(folder)!r})
guard = Guard(folder)
for name in ("one", "two"):
    program = Program(name, ["sh", "-c", "trap '' TERM; exec sleep 600"], folder, os.environ)
    program.start()
    while not (folder / (name + ".pid")).exists(): pass
    print(program.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == -signal.SIGKILL, answer.stderr
    pids = [int(line) for line in answer.stdout.split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 120
    while (folder.exists() or any(map(_alive, pids))) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not folder.exists()
    assert not [pid for pid in pids if _alive(pid)]


def _alive(pid: int) -> bool:
    """Whether it runs; one that has ended and that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_that_does_not_listen_to_sigterm_is_ended_all_the_same(tmp_path: Path) -> None:
    program = Program("deaf", ["sh", "-c", "trap '' TERM; echo up; exec sleep 600"], tmp_path, os.environ)
    program.start()
    wait_for(lambda: "up" in program.tail(), "it is up", [program], 120)
    pid = program.pid
    assert pid
    program.stop(0.1)
    assert not program.running
    assert not _alive(pid)
    program.check()  # it was meant to end
