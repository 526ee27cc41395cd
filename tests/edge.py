"""The HTTP side of the webhook on a real HTTPS server, around any handler, and clients that send any bytes."""

import asyncio
import io
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp

from webhook.server.http import Edge
from webhook.server.listener import Listener
from webhook.server.load import Turns
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics
from webhook.tls.issue import make_ca, make_leaf
from webhook.tls.serve import LiveContext

NOW = datetime.now(UTC)
CA = make_ca(NOW)
LEAF, OTHER = make_leaf(CA, ["localhost"], NOW), make_leaf(CA, ["localhost"], NOW)
TRUST = ssl.create_default_context(cadata=CA.certificate.decode())
ANSWER = b'{"ok":true}'
SECRET = "canary-9f1c"


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Running:
    port: int
    edge: Edge
    live: LiveContext
    listener: Listener
    metrics: Metrics
    log: io.BytesIO
    bodies: list[bytes]
    opened: list[Stream]
    """Connections of `open`. They are closed at the end."""

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def count(self, series: str) -> float:
        sample = re.search(
            rf"^{re.escape('gpu_admission_' + series)} (\S+)$", self.metrics.text().decode(), re.MULTILINE
        )
        return float(sample[1]) if sample else 0.0

    async def open(self) -> Stream:
        self.opened.append(stream := await asyncio.open_connection("localhost", self.port, ssl=TRUST))
        return stream

    async def raw(self, sent: bytes) -> bytes:
        """Send bytes on a new connection. Returns everything that the server sends until it closes."""
        reader, writer = await self.open()
        writer.write(sent)
        return await reader.read()


@asynccontextmanager
async def running(
    decide: Callable[[bytes], tuple[int, bytes]] | None = None, live: LiveContext | None = None, **options: Any
) -> AsyncIterator[Running]:
    if live is None:
        live = LiveContext()
        live.swap(LEAF, NOW)
    metrics, log, bodies = Metrics(), io.BytesIO(), []

    def echo(body: bytes) -> tuple[int, bytes]:
        bodies.append(body)
        return decide(body) if decide else (200, ANSWER)

    turns = Turns()
    edge = Edge({"/mutate": echo, "/validate": echo}, metrics, logs.configure(log), turns)
    listener = Listener(edge.handle, metrics, turns, live.context, **options)
    port = await listener.start("localhost", 0)
    try:
        async with streams() as opened:
            yield Running(port, edge, live, listener, metrics, log, bodies, opened)
    finally:
        await listener.stop(1)


def https() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=TRUST))


def post(path: str = "/mutate", headers: str = "Content-Type: application/json", length: int = 2) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n\r\n".encode()


API_SERVER = "127.0.0.1"


async def dial(server: Running, address: str = API_SERVER, trust: ssl.SSLContext | None = TRUST) -> Stream:
    name = "localhost" if trust else None
    return await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=trust, server_hostname=name, local_addr=(address, 0)
    )


async def asked(stream: Stream, body: bytes = b"{}") -> int:
    """Send a review as the API server does. Returns the status of the answer."""
    reader, writer = stream
    writer.write(post(length=len(body)) + body)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    await reader.readexactly(length)
    return int(head.split()[1])


@asynccontextmanager
async def streams() -> AsyncIterator[list[Stream]]:
    """A list for the connections that a test opens. They are closed at the end."""
    opened: list[Stream] = []
    try:
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()
        for _, writer in opened:
            with suppress(OSError):
                await writer.wait_closed()
