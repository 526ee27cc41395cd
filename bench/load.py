"""A load over kept-alive TLS connections that costs little itself: requests are made beforehand, answers only counted.

Two kinds: as much as the server takes, and so many requests a second. The client never sleeps, if there is a core for it: a
server whose client does pays for waking it up with each answer, and the slower it is the oftener.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

_LENGTH = b"content-length: "


@dataclass
class Outcome:
    """Latencies in seconds, one per request, and the CPU seconds that the server spent on all of them."""

    latencies: list[float] = field(default_factory=list)
    failed: int = 0
    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.latencies + other.latencies, self.failed + other.failed, self.wall + other.wall, self.cpu + other.cpu
        )

    def percentile(self, share: float) -> float:
        ranked = sorted(self.latencies)
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

    @property
    def cpu_each(self) -> float:
        return self.cpu / max(1, len(self.latencies))

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.wall


def request(path: str, body: bytes) -> bytes:
    """One HTTP/1.1 POST, as kube-apiserver sends it."""
    head = (
        f"POST {path}?timeout=3s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nAccept: application/json\r\n\r\n"
    )
    return head.encode() + body


class _Connection(asyncio.Protocol):
    """Sends the next request as soon as the last one is answered; with `idle`, becomes one of these."""

    def __init__(
        self,
        requests: list[bytes],
        turn: int,
        stop_at: list[float],
        outcome: Outcome,
        idle: list[_Connection] | None,
    ) -> None:
        self._requests = requests
        self._turn = turn
        self._stop_at = stop_at
        self._outcome = outcome
        self._idle = idle
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._next()

    def _next(self) -> None:
        if self._idle is None:
            self.send()
        else:
            self._idle.append(self)

    def send(self) -> None:
        self._turn = (self._turn + 1) % len(self._requests)
        self._sent = time.perf_counter()
        self._transport.write(self._requests[self._turn])

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.index(_LENGTH) + len(_LENGTH)
        length = int(head[at:].partition(b"\r\n")[0])
        if len(self._buffer) < end + 4 + length:
            return
        now = time.perf_counter()
        self._outcome.latencies.append(now - self._sent)
        if b" 200 " not in head[:16]:
            self._outcome.failed += 1
        self._buffer = b""
        if now < self._stop_at[0]:
            self._next()
        else:
            self._transport.close()
            self.done.set_result(None)

    def close(self) -> None:
        self.done.cancel()
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._outcome.failed += 1
            self.done.set_result(None)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, to the nanosecond."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def run(
    port: int, pid: int, requests: list[bytes], seconds: float, connections: int, rate: float | None = None
) -> Outcome:
    """Load the server on `port` and watch what its process `pid` spends. `rate`: requests a second; None: all it takes."""
    return uvloop.run(_run(port, pid, requests, seconds, connections, rate))


async def _run(
    port: int, pid: int, requests: list[bytes], seconds: float, connections: int, rate: float | None
) -> Outcome:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    loop = asyncio.get_running_loop()
    outcome = Outcome()
    stop_at = [time.perf_counter() + 3600]
    step = max(1, len(requests) // connections)
    idle: list[_Connection] | None = None if rate is None else []
    made = []
    for number in range(connections):
        turn = number * step % len(requests)
        _, protocol = await loop.create_connection(
            lambda turn=turn: _Connection(requests, turn, stop_at, outcome, idle), "127.0.0.1", port, ssl=context
        )
        made.append(protocol)
    pace = None if idle is None or rate is None else loop.create_task(_pace(idle, rate))
    awake = (os.cpu_count() or 1) > 1

    def stay_awake() -> None:
        if awake:
            loop.call_soon(stay_awake)

    stay_awake()
    await asyncio.sleep(min(1.0, seconds / 4))  # warm
    outcome.latencies.clear()
    outcome.failed = 0
    started, before = time.perf_counter(), cpu_seconds(pid)
    if pace is None:
        stop_at[0] = started + seconds
        await asyncio.gather(*(protocol.done for protocol in made))
    else:
        await asyncio.sleep(seconds)
        pace.cancel()
        for protocol in made:
            protocol.close()
    awake = False
    outcome.wall, outcome.cpu = time.perf_counter() - started, cpu_seconds(pid) - before
    return outcome


async def _pace(idle: list[_Connection], rate: float) -> None:
    """Let so many connections a second send. What is due while all of them wait is sent later."""
    started, sent = time.perf_counter(), 0
    while True:
        due = int((time.perf_counter() - started) * rate)
        while sent < due and idle:
            idle.pop(0).send()
            sent += 1
        await asyncio.sleep(1 / rate)
