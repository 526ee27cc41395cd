"""A load over kept-alive TLS connections that costs little itself: requests are made beforehand, answers only counted.

Each request is sent once, as soon as a connection is free: as many as the server takes. The client never sleeps, if there is a
core for it: a server whose client does pays for waking it up with each answer, and the slower it is the oftener.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

_LENGTH = b"content-length: "


TENTHS = 10


@dataclass
class Outcome:
    """Latencies in seconds, one per request, and the CPU seconds of the server: after each tenth of all answers."""

    latencies: list[float] = field(default_factory=list)
    failed: int = 0
    wall: float = 0.0
    cpu: list[float] = field(default_factory=list)

    @property
    def cpu_each(self) -> float:
        return (self.cpu[-1] - self.cpu[0]) / len(self.latencies)

    def tenth(self, number: int) -> float:
        """CPU seconds of one request, in this tenth; -1 is the last."""
        took = [after - before for before, after in zip(self.cpu, self.cpu[1:], strict=False)]
        return took[number] / (len(self.latencies) / TENTHS)


def percentile(values: list[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def request(path: str, body: bytes) -> bytes:
    """One HTTP/1.1 POST, as kube-apiserver sends it."""
    head = (
        f"POST {path}?timeout=3s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nAccept: application/json\r\n\r\n"
    )
    return head.encode() + body


class _Load:
    """What all connections share: the requests that are left, and what came of the others."""

    def __init__(self, requests: list[bytes], cpu: Callable[[], float]) -> None:
        self.left = list(reversed(requests))
        self.outcome = Outcome()
        self._cpu = cpu
        self._size = max(1, len(requests) // TENTHS)
        self._all = len(requests)

    def answered(self, seconds: float, failed: bool) -> None:
        found = self.outcome
        found.latencies.append(seconds)
        found.failed += failed
        count = len(found.latencies)
        if count == self._all or (count % self._size == 0 and len(found.cpu) < TENTHS):
            found.cpu.append(self._cpu())


class _Connection(asyncio.Protocol):
    """Sends the next request as soon as the last one is answered."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._buffer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def send(self) -> None:
        if not self._load.left:
            self.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(self._load.left.pop())

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
        self._load.answered(time.perf_counter() - self._sent, b" 200 " not in head[:16])
        self._buffer = b""
        self.send()

    def close(self) -> None:
        self._transport.close()
        if not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server closed the connection"))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, to the nanosecond."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def run(port: int, cpu: Callable[[], float], requests: list[bytes], connections: int) -> Outcome:
    """Send all requests to the server on `port`, once. `cpu`: the CPU seconds that it has taken so far."""
    return uvloop.run(_run(port, cpu, requests, connections))


async def _run(port: int, cpu: Callable[[], float], requests: list[bytes], connections: int) -> Outcome:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    loop = asyncio.get_running_loop()
    load = _Load(requests, cpu)
    made = []
    for _ in range(min(connections, len(requests))):
        made.append((await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port, ssl=context))[1])
    awake = (os.cpu_count() or 1) > 1

    def stay_awake() -> None:
        if awake:
            loop.call_soon(stay_awake)

    stay_awake()
    await asyncio.sleep(0.1)  # the handshakes are over on the other side too
    started = time.perf_counter()
    load.outcome.cpu.append(cpu())
    for connection in made:
        connection.send()
    await asyncio.gather(*(connection.done for connection in made))
    awake = False
    load.outcome.wall = time.perf_counter() - started
    return load.outcome
