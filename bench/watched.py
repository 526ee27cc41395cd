"""The real server with a watch that shows each pod as soon as it is admitted: `python -m bench.watched FILE ALIVE serve …`.

It waits there for the scheduler, and is deleted when ALIVE more have come, or all are, by a POST to /clear. So reservations are
made as in a cluster: for an owner whose pods nobody sees, few are. What this costs is no part of a review: its CPU time, in
nanoseconds, stands in FILE.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

from bench.recorded import mutated
from webhook.cli.main import main as webhook
from webhook.server import app
from webhook.server.handlers import Answer
from webhook.server.process import Process

SIZE = 8


def spent(file: Path) -> float:
    """Seconds of CPU time that the watch took so far."""
    return float(struct.unpack("<q", file.read_bytes())[0]) / 1e9


class Watch:
    """Between a server and its handler for pods that are created."""

    def __init__(self, process: Process, file: mmap.mmap, alive: int) -> None:
        routes = process.edge._routes
        self._decide = routes["/mutate"]
        self._state, self._file, self._most = process.state, file, alive
        self._alive: deque[dict[str, Any]] = deque()
        self._count = self._spent = 0
        routes |= {"/mutate": self._mutate, "/clear": self._clear}

    def _mutate(self, body: bytes) -> Answer:
        found = self._decide(body)
        started = time.thread_time_ns()
        self._seen(body, found[1])
        self._spent += time.thread_time_ns() - started
        struct.pack_into("<q", self._file, 0, self._spent)
        return found

    def _seen(self, body: bytes, answer: bytes) -> None:
        pod = mutated(body, answer)
        self._count += 1
        pod["metadata"] |= {"uid": f"{self._count:032x}", "name": f"seen-{self._count}"}
        self._state.pod_seen(pod, time.monotonic())
        self._alive.append({"metadata": {"uid": pod["metadata"]["uid"]}})
        if len(self._alive) > self._most:
            self._state.pod_gone(self._alive.popleft())

    def _clear(self, body: bytes) -> Answer:
        while self._alive:
            self._state.pod_gone(self._alive.popleft())
        return 200, b"{}"


def main() -> None:
    path, alive, *arguments = sys.argv[1:]
    with Path(path).open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as memory:

        def watched(*given: Any) -> Process:
            process = Process(*given)
            Watch(process, memory, int(alive))
            return process

        app.Process = watched  # type: ignore[assignment,misc]
        sys.argv[1:] = arguments
        webhook()


if __name__ == "__main__":
    main()
