"""Runs the real server with a watch that sees each pod as soon as it is admitted: `python -m bench.watched FILE ALIVE serve …`.

Without the watch the server would make few reservations, because it limits the reservations of an owner whose pods it does not
see. The pods wait for the scheduler. A pod is deleted when ALIVE more have come, and a POST to /clear deletes all. FILE has the
CPU time of the watch in nanoseconds, which is no part of the cost of a review.
"""

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
"""Bytes of FILE."""


def spent(file: Path) -> float:
    """CPU seconds of the watch so far."""
    return float(struct.unpack("<q", file.read_bytes())[0]) / 1e9


class Watch:
    """Wraps the mutating hook of a server: the state sees the pod of each review."""

    def __init__(self, process: Process, file: mmap.mmap, alive: int) -> None:
        routes = process.edge._routes
        self._decide = routes["/mutate"]
        self._state, self._file, self._most = process.state, file, alive
        self._alive: deque[dict[str, Any]] = deque()
        self._count = self._spent = 0
        routes |= {"/mutate": self._mutate, "/clear": self._clear}

    def _mutate(self, body: bytes) -> Answer:
        answer = self._decide(body)
        started = time.thread_time_ns()
        self._seen(body, answer[1])
        self._spent += time.thread_time_ns() - started
        struct.pack_into("<q", self._file, 0, self._spent)
        return answer

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
