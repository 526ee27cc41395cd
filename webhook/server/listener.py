"""A listening socket for an HTTP handler, and its connections. At their bound, the one that has been without a request for
longest is closed."""

import asyncio
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aiohttp import web

from webhook.server.gate import Gate, Handler, Shared
from webhook.server.load import MAX_BYTES, MAX_UNREAD, Bounded, Held, Turns
from webhook.telemetry.metrics import Metrics

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

KEEPALIVE_SECONDS: Final = 120.0
"""Time without a whole request until a connection is closed: longer than the 90 s of Go's client, which must close first. A POST
that meets a closing connection is not repeated, and the creation of the pod fails with EOF."""
HANDSHAKE_SECONDS: Final = 5.0
"""Time for the TLS handshake, and before it for its first byte. asyncio would wait a minute."""
MAX_CONNECTIONS: Final = 1024
"""An API server keeps 25 idle connections and adds one for each call in progress, some hundreds in a burst."""
CLOSE_SECONDS: Final = 0.5
"""At shutdown, the time for clients to close their side of TLS. Then the connections are cut."""
ACCEPTS, BACKLOG = 64, 1024
"""Connections accepted in one turn of the event loop, and queued by the kernel until then."""
RECEIVE_BYTES: Final = 16 << 10
"""The kernel's buffer, which it doubles. What is in it is decrypted at once: 2 ms if each record has one byte."""


class Listener:
    """Accepts connections from `start` to `stop` and serves their requests by `handle`."""

    def __init__(
        self,
        handle: Handle,
        metrics: Metrics,
        turns: Turns,
        tls: ssl.SSLContext | None = None,
        *,
        limit: int = MAX_CONNECTIONS,
        keepalive: float = KEEPALIVE_SECONDS,
        held: Bounded | None = None,
        authenticated: bool = False,
    ) -> None:
        """`held` counts large answers. `authenticated`: handshakes demand a client certificate. Strangers end there, and what
        comes after has no gate."""
        self._handle, self._turns, self._tls, self._authenticated = handle, turns, tls, authenticated
        self._shared = Shared(metrics, Bounded(limit), held or Bounded(MAX_BYTES), set())
        self._options: dict[str, Any] = {
            "keepalive_timeout": keepalive,
            "max_line_size": 2048,
            "max_field_size": 2048,
            "max_headers": 32,
            "read_bufsize": MAX_UNREAD // 2,
            "auto_decompress": False,
            "lingering_time": 0.0,
            "access_log": None,
        }
        self._socket: socket.socket | None = None

    @property
    def open(self) -> set[Held]:
        """The connections."""
        return self._shared.open

    async def start(self, host: str, port: int) -> int:
        """Listen on an IPv4 or IPv6 address. Returns the port, which the kernel chooses for port 0. Raises OSError."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the usual soft limit is 1,024 open files
        self._server = web.Server(self._handle)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        dual_stack = family == socket.AF_INET6  # the address `::` accepts IPv4 too
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=dual_stack)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)  # accepted sockets inherit it
        asyncio.get_running_loop().add_reader(self._socket, self._accept)
        return int(self._socket.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Stop accepting, close idle connections, and give requests in progress `grace` seconds."""
        if self._socket is None:
            return
        self._accept()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        for _ in range(3):
            await asyncio.sleep(0)  # lets the handling of requests that have arrived begin
        self._server.pre_shutdown()
        await self._server.shutdown(grace)
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, lambda: [connection.cut() for connection in [*self.open]])
        while self.open:  # noqa: ASYNC110  only now, and for half a second
            await asyncio.sleep(0.01)

    def _accept(self) -> None:
        """Accept connections. `loop.create_server` would report one only after its handshake, the most expensive part."""
        for _ in range(ACCEPTS):
            if self._socket is None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # out of files or memory: close one connection, and try again in the next turn
                self._shared.metrics.cut.inc(self._shared.connections.cut())
                return
            accepted.setblocking(False)
            connection = Held(f"{address[0]} silent" if self._tls else str(address[0]))
            task = asyncio.get_running_loop().create_task(self._serve(accepted, connection))
            connection.cut = task.cancel
            self.open.add(connection)
            task.add_done_callback(partial(self._served, accepted, connection))
            self._shared.metrics.cut.inc(self._shared.connections.add(connection))

    async def _serve(self, accepted: socket.socket, connection: Held) -> bool:
        """Whether the handshake ended well."""
        loop, seconds = asyncio.get_running_loop(), HANDSHAKE_SECONDS if self._tls else None
        with suppress(OSError):  # the handshake broke off, took too long, or showed no accepted certificate
            if self._tls is not None:
                await _hello(accepted)
                self._shared.connections.remove(connection)
                # Those who said nothing are cheap, and count by themselves.
                connection.peer = connection.peer.removesuffix(" silent")
                self._shared.metrics.cut.inc(self._shared.connections.add(connection))
                await self._turns.wait(f"{connection.peer} handshakes", 1)
            kind = Handler if self._authenticated else Gate
            handler = kind(self._shared, connection, self._server, loop=loop, **self._options)
            await loop.connect_accepted_socket(
                lambda: handler, accepted, ssl=self._tls, ssl_handshake_timeout=seconds, ssl_shutdown_timeout=seconds
            )
            if self._authenticated:
                self._shared.connections.used(connection)
            return True
        return False

    def _served(self, accepted: socket.socket, connection: Held, task: asyncio.Task[bool]) -> None:
        if task.cancelled() or not task.result():
            self._shared.lost(connection)
            accepted.close()


async def _hello(accepted: socket.socket) -> None:
    """Wait for a first record with the whole ClientHello; until then a connection costs almost nothing. Raises OSError.

    Clients send it in one record (crypto/tls: `writeHandshakeRecord`). In records of one byte OpenSSL takes 22 ms for it.
    """
    readable, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(accepted, readable.set)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await readable.wait()
    finally:
        loop.remove_reader(accepted)
    # Type, version and length of the record, then type and length of the message.
    begun = accepted.recv(9, socket.MSG_PEEK)
    whole = 4 + int.from_bytes(begun[6:])
    if len(begun) < 9 or (begun[0], begun[5]) != (22, 1) or int.from_bytes(begun[3:5]) != whole:
        raise ConnectionAbortedError("no ClientHello")
