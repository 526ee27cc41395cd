"""A load over kept-alive TLS connections that costs little itself: requests are made beforehand, answers only counted."""

from __future__ import annotations

import asyncio
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
    """Sends the next request as soon as the last one is answered."""

    def __init__(self, requests: list[bytes], turn: int, stop_at: list[float], outcome: Outcome) -> None:
        self._requests = requests
        self._turn = turn
        self._stop_at = stop_at
        self._outcome = outcome
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._send()

    def _send(self) -> None:
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
            self._send()
        else:
            self._transport.close()
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._outcome.failed += 1
            self.done.set_result(None)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def run(port: int, pid: int, requests: list[bytes], seconds: float, connections: int) -> Outcome:
    """Load the server on `port` and watch what its process `pid` spends."""
    return uvloop.run(_run(port, pid, requests, seconds, connections))


async def _run(port: int, pid: int, requests: list[bytes], seconds: float, connections: int) -> Outcome:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    loop = asyncio.get_running_loop()
    outcome = Outcome()
    stop_at = [time.perf_counter() + 3600]
    step = max(1, len(requests) // connections)
    made = []
    for number in range(connections):
        turn = number * step % len(requests)
        _, protocol = await loop.create_connection(
            lambda turn=turn: _Connection(requests, turn, stop_at, outcome), "127.0.0.1", port, ssl=context
        )
        made.append(protocol)
    await asyncio.sleep(min(1.0, seconds / 4))  # warm
    outcome.latencies.clear()
    outcome.failed = 0
    started, before = time.perf_counter(), cpu_seconds(pid)
    stop_at[0] = started + seconds
    await asyncio.gather(*(protocol.done for protocol in made))
    outcome.wall, outcome.cpu = time.perf_counter() - started, cpu_seconds(pid) - before
    return outcome
