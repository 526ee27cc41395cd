"""A listening socket for an aiohttp handler, with limits on what a stranger on the network can use up."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from contextlib import suppress
from functools import partial
from typing import Final

from webhook.server.connections import Connection, Connections
from webhook.server.handshakes import Handshakes, Rate
from webhook.server.protocol import MAX_UNREAD, Handle, Handler, Server, is_no_bad_request
from webhook.telemetry.metrics import Metrics

KEEPALIVE_SECONDS: Final = 120.0
"""Time after which an idle connection is closed. It is longer than the 90 s of Go's client, which must close first: a POST that
meets a closing connection is not repeated, and the creation of the pod fails with EOF."""
HANDSHAKE_SECONDS: Final = 5.0
"""Maximum time for the TLS handshake. asyncio would wait a minute."""
SILENT_SECONDS: Final = 10.0
"""Maximum time from the connection to the first review. An API server connects because it has a call to make. If another
connection becomes free sooner, it keeps the new one unused, and loses nothing when that is closed."""
MAX_CONNECTIONS: Final = 1024
"""Maximum number of connections. It bounds memory: see MAX_UNREAD. An API server keeps 25 idle connections and adds one for each
call in progress, some hundreds in a burst."""
CLOSE_SECONDS: Final = 0.5
"""At shutdown, the time for clients to close their side of TLS. Then the connections are cut."""
ACCEPTS: Final = 64
"""Connections accepted in one turn of the event loop, so that open ones do not wait. Handshakes begin later: see `Handshakes`."""
BACKLOG: Final = 1024
"""Connections that the kernel queues until they are accepted, for a burst of new ones during a long review."""
FILES: Final = 4096
"""Open files needed for all connections. The usual limit is 1,024."""


class Listener:
    """Accepts connections from `start` to `stop` and serves their requests by `handle`."""

    def __init__(
        self,
        handle: Handle,
        metrics: Metrics,
        tls: ssl.SSLContext | None = None,
        *,
        limit: int = MAX_CONNECTIONS,
        keepalive: float = KEEPALIVE_SECONDS,
        silent: float = SILENT_SECONDS,
        authenticated: bool = False,
    ) -> None:
        """`silent`: see SILENT_SECONDS. `authenticated`: the handshake demands a client certificate, so silence is allowed."""
        self._metrics = metrics
        self._tls = tls
        self._silent = silent
        self._socket: socket.socket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._rate = Rate()
        self._handshakes = Handshakes(self._begin, self._rate)
        self._tasks: set[asyncio.Task[None]] = set()
        """Handshakes that have begun."""
        self._connections = Connections(limit)
        logger = logging.Logger("http", logging.DEBUG)  # not registered, so that its filter ends with this listener
        logger.parent = logging.getLogger()
        logger.addFilter(partial(is_no_bad_request, metrics=metrics))
        options = {"keepalive_timeout": keepalive, "logger": logger}
        self._server = Server(handle, self._connections, self._rate, authenticated, **options)

    async def start(self, host: str, port: int) -> int:
        """Listen on an IPv4 or IPv6 address. Returns the port, which the kernel chooses for port 0. Raises OSError."""
        _allow_files()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        dual_stack = family == socket.AF_INET6  # the address `::` accepts IPv4 too
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=dual_stack)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MAX_UNREAD)  # accepted sockets inherit it
        asyncio.get_running_loop().add_reader(self._socket, self._accept)
        self._sweep_later()
        return int(self._socket.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Stop accepting, close idle connections, and give requests in progress `grace` seconds."""
        if self._socket is None:
            return
        self._accept()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        if self._sweep is not None:
            self._sweep.cancel()
        await asyncio.sleep(0)  # lets the handling of requests that have arrived begin
        self._server.pre_shutdown()
        await self._server.shutdown(grace)
        for connection in self._handshakes.pending():
            self._connections.remove(connection)
            connection.cut()
        for task in self._tasks:
            task.cancel()
        await self._server.closed(CLOSE_SECONDS)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def _accept(self) -> None:
        """Accept connections. `loop.create_server` would report one only after its handshake, the most expensive part."""
        now = asyncio.get_running_loop().time()
        for _ in range(ACCEPTS):
            if self._socket is None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # out of files or memory: close one connection, and try again in the next turn
                self._cut(self._connections.evict())
                return
            accepted.setblocking(False)
            connection = Connection(str(address[0]))
            connection.cut = partial(self._handshakes.cancel, connection)
            self._handshakes.add(accepted, connection)
            self._cut(self._connections.add(connection, now))

    def _begin(self, accepted: socket.socket, connection: Connection) -> None:
        handler = self._server()
        handler.connection = connection
        task = asyncio.get_running_loop().create_task(self._serve(accepted, handler))
        connection.cut = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: None if handler.established else self._never_established(accepted, connection))

    async def _serve(self, accepted: socket.socket, handler: Handler) -> None:
        seconds = HANDSHAKE_SECONDS if self._tls else None
        with suppress(OSError):  # the handshake broke off, took too long, or showed no accepted certificate
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: handler,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )

    def _never_established(self, accepted: socket.socket, connection: Connection) -> None:
        self._connections.remove(connection)
        accepted.close()

    def _cut(self, connection: Connection | None) -> None:
        if connection is not None:
            self._metrics.cut.labels(connection.stage.value).inc()
            connection.cut()

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in self._connections.silent_since(loop.time() - self._silent):
            self._cut(connection)
        self._sweep = loop.call_later(min(1.0, self._silent), self._sweep_later)


def _allow_files() -> None:
    """Raise the limit of open files. Container runtimes set it to 1,024, and a process may raise it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        allowed = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
