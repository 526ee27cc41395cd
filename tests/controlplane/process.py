"""Child processes that never outlive their parent, however it ends.

Each child leads its own process group and has written its id to a file before it runs. A guard, one small shell that
ignores signals, holds the other end of a pipe: when this process is gone (an exit, a crash, SIGKILL) it kills every
group and removes the folder. PR_SET_PDEATHSIG would leave the folder, and fires when only a thread of ours ends.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

GUARD = """
trap '' INT TERM HUP QUIT
cat >/dev/null
for file in "$1"/*.pid; do [ -e "$file" ] && kill -s KILL -- "-$(cat "$file")" 2>/dev/null; done
for try in 1 2 3 4 5; do rm -rf "$1" && break; sleep 0.2; done
"""
BUSY: Final = 5
"""A machine that runs other tests meanwhile takes so many times as long, and no test fails for that."""
CHILD = 'echo $$ >"$0.new" && mv "$0.new" "$0" && exec "$@"'


class Failed(Exception):
    """A program of the control plane did not start, or has ended. The message has the last lines of its log."""


class Guard:
    """Kills the processes of a folder and removes it when this process has gone."""

    def __init__(self, folder: Path) -> None:
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            ["sh", "-c", GUARD, "guard", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def release(self) -> None:
        """Lets it do its work now, and waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Program:
    """One program of the control plane, with its log; it can be stopped and started again."""

    def __init__(self, name: str, command: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.command = command
        self.log = folder / f"{name}.log"
        self._folder = folder
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it; the log goes on where it was. Whether it is ready is for the caller to see."""
        if self.running:
            raise Failed(f"{self.name} runs already: stop it first")
        out: IO[bytes]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                ["sh", "-c", CHILD, str(self._folder / f"{self.name}.pid"), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._folder,
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.running else None

    def check(self) -> None:
        """Raises Failed if it was started and has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise Failed(f"{self.name} ended with status {self._process.returncode}; {self.tail()}")

    def stop(self, patience: float) -> None:
        """Ends it: SIGTERM, and SIGKILL after `patience` seconds (0: at once, as a crash would). Waits for the end."""
        process, self._process = self._process, None
        if process is None:
            return
        if patience > 0:
            _signal_group(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)
        _signal_group(process, signal.SIGKILL)
        process.wait()
        (self._folder / f"{self.name}.pid").unlink(missing_ok=True)

    def tail(self, lines: int = 15) -> str:
        """The last lines of its log, for a message."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 64_000))
                last = file.read().decode(errors="replace").splitlines()[-lines:]
        except FileNotFoundError:
            last = []
        return f"the last lines of {self.log}:\n" + "\n".join(f"    {line[:400]}" for line in last)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.returncode is None:  # once it was waited for, its id may be another's
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def wait_for(ready: Callable[[], bool], what: str, programs: Sequence[Program] = (), timeout: float = 120) -> None:
    """Calls `ready()` until it is true. Raises Failed if a program ends before, or after `timeout` seconds of an idle machine."""
    deadline = (asked := time.monotonic()) + BUSY * timeout
    while not ready():
        for program in programs:
            program.check()
        if (now := time.monotonic()) > deadline:
            raise Failed(f"{what} not within {BUSY * timeout:.0f} s; " + (programs[-1].tail() if programs else ""))
        time.sleep(max(0.05, now - asked))  # at least as long as it took to ask
        asked = time.monotonic()
