"""A load generator for one server over kept-alive TLS connections.

It takes little CPU time itself: requests are built beforehand, and answers are only counted. Each request is sent once, as soon
as a connection is free, so that the server is always busy. The client never sleeps if the machine has a second core: the server
would pay with CPU time for waking up a sleeping client, a slow server more often than a fast one.
"""

import asyncio
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import uvloop

from bench.output import TENTHS

_LENGTH = b"content-length: "


@dataclass
class Outcome:
    """What was measured while all requests were answered."""

    latencies: list[float] = field(default_factory=list)
    """Seconds, one for each request."""
    failed: int = 0
    """Number of answers whose status is not 200."""
    wall: float = 0.0
    """Seconds from the first request to the last answer."""
    cpu: list[float] = field(default_factory=list)
    """CPU seconds of the server at the start and after each tenth of all answers."""

    @property
    def cpu_each(self) -> float:
        """CPU seconds of one request, on average."""
        return (self.cpu[-1] - self.cpu[0]) / len(self.latencies)

    def tenth(self, number: int) -> float:
        """CPU seconds of one request in the tenth with this number; -1 is the last."""
        took = [after - before for before, after in pairwise(self.cpu)]
        return took[number] / (len(self.latencies) / TENTHS)


def request(path: str, body: bytes) -> bytes:
    """A POST over HTTP/1.1 with the headers that kube-apiserver sends."""
    head = (
        f"POST {path}?timeout=3s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nAccept: application/json\r\n\r\n"
    )
    return head.encode() + body


class _Load:
    """Shared by all connections: the requests that are not yet sent, and the outcome so far."""

    def __init__(self, requests: list[bytes], cpu: Callable[[], float]) -> None:
        self.left = list(reversed(requests))
        self.outcome = Outcome()
        self._cpu = cpu
        self._size = max(1, len(requests) // TENTHS)
        self._all = len(requests)

    def answered(self, seconds: float, failed: bool) -> None:
        outcome = self.outcome
        outcome.latencies.append(seconds)
        outcome.failed += failed
        count = len(outcome.latencies)
        if count == self._all or (count % self._size == 0 and len(outcome.cpu) < TENTHS):
            outcome.cpu.append(self._cpu())


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


def anybody() -> ssl.SSLContext:
    """Trusts every server, and shows no certificate."""
    context = ssl.SSLContext(
        ssl.PROTOCOL_TLS_CLIENT
    )  # without the authorities of the machine, which take 20 ms to read
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process so far. schedstat counts nanoseconds."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def run(port: int, cpu: Callable[[], float], requests: list[bytes], connections: int) -> Outcome:
    """Send each request once to the server on `port`. `cpu`: returns the CPU seconds that the server has taken so far."""
    return uvloop.run(_run(port, cpu, requests, connections))


async def _run(port: int, cpu: Callable[[], float], requests: list[bytes], connections: int) -> Outcome:
    context = anybody()
    loop = asyncio.get_running_loop()
    load = _Load(requests, cpu)
    made = []
    for _ in range(min(connections, len(requests))):
        made.append((await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port, ssl=context))[1])
    awake = (os.cpu_count() or 1) > 1

    def stay_awake() -> None:
        if awake:
            loop.call_soon(stay_awake)

    await asyncio.sleep(0.1)  # until the handshakes are over on the server's side too
    stay_awake()
    started = time.perf_counter()
    load.outcome.cpu.append(cpu())
    for connection in made:
        connection.send()
    await asyncio.gather(*(connection.done for connection in made))
    awake = False
    load.outcome.wall = time.perf_counter() - started
    return load.outcome
