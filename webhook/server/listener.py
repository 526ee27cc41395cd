"""A listening socket around an aiohttp handler, with every limit that a stranger on the network can run into."""

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
"""Above the 90 s after which Go's client closes an idle connection. We must not close first: a POST that meets a closing
connection is not repeated, and the creation of the pod fails with EOF."""
HANDSHAKE_SECONDS: Final = 5.0
"""For the TLS handshake; asyncio would wait a minute for a socket that says nothing."""
SILENT_SECONDS: Final = 10.0
"""From the connection to the first review. An API server dials because it has a call to make. Where another connection is free
sooner, it keeps the new one unused, and loses nothing when that is closed."""
MAX_CONNECTIONS: Final = 1024
"""It bounds memory: see MAX_UNREAD. An API server keeps 25 idle connections and adds one for each call under way, some
hundreds in a burst."""
CLOSE_SECONDS: Final = 0.5
"""At the end, for clients to close their side of TLS; then connections are cut."""
ACCEPTS: Final = 64
"""New connections in one turn of the event loop, so that open ones do not wait. Handshakes begin later: see `Handshakes`."""
BACKLOG: Final = 1024
"""Connections that the kernel keeps until they are accepted: a burst of new ones, during a review that takes long."""
FILES: Final = 4096
"""Open files that we need: more than the usual 1,024, for all connections."""


class Listener:
    """`start`, `stop`; in between every connection is served by `handle`."""

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
        """`authenticated`: the handshake demands a client certificate, so a connection may be silent."""
        self._metrics = metrics
        self._tls = tls
        self._silent = silent
        self._socket: socket.socket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._rate = Rate()
        self._waiting = Handshakes(self._begin, self._rate)
        self._handshakes: set[asyncio.Task[None]] = set()
        self._connections = Connections(limit)
        logger = logging.Logger("http", logging.DEBUG)  # not a registered one: its filter ends with this listener
        logger.parent = logging.getLogger()
        logger.addFilter(partial(is_no_bad_request, metrics=metrics))
        options = {"keepalive_timeout": keepalive, "logger": logger}
        self._server = Server(handle, self._connections, self._rate, authenticated, **options)

    async def start(self, host: str, port: int) -> int:
        """Listen on an IPv4 or IPv6 address. The port that it became, for port 0. Raises OSError where it cannot be had."""
        _allow_files()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        both = family == socket.AF_INET6  # `::` is IPv4, too
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MAX_UNREAD)  # accepted ones have it too
        asyncio.get_running_loop().add_reader(self._socket, self._accept)
        self._sweep_later()
        return int(self._socket.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Accept nothing more, close what is idle, give requests that are under way `grace` seconds."""
        if self._socket is None:
            return
        self._accept()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        if self._sweep is not None:
            self._sweep.cancel()
        await asyncio.sleep(0)  # requests that have come already begin to be handled
        self._server.pre_shutdown()
        await self._server.shutdown(grace)
        for connection in self._waiting.waiting():
            self._connections.remove(connection)
            connection.cut()
        for handshake in self._handshakes:
            handshake.cancel()
        await self._server.closed(CLOSE_SECONDS)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def _accept(self) -> None:
        """Not `loop.create_server`: that shows a connection only after its handshake, which is what costs most."""
        now = asyncio.get_running_loop().time()
        for _ in range(ACCEPTS):
            if self._socket is None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no file or no memory is left: somebody goes, and the next turn tries again
                self._end(self._connections.spare())
                return
            accepted.setblocking(False)
            connection = Connection(str(address[0]))
            connection.cut = partial(self._waiting.end, connection)
            self._waiting.add(accepted, connection)
            self._end(self._connections.add(connection, now))

    def _begin(self, accepted: socket.socket, connection: Connection) -> None:
        handler = self._server()
        handler.connection = connection
        task = asyncio.get_running_loop().create_task(self._serve(accepted, handler))
        connection.cut = task.cancel
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        task.add_done_callback(lambda _: None if handler.established else self._never_established(accepted, connection))

    async def _serve(self, accepted: socket.socket, handler: Handler) -> None:
        seconds = HANDSHAKE_SECONDS if self._tls else None
        with suppress(OSError):  # it broke off, took too long, or showed no certificate that we take
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

    def _end(self, connection: Connection | None) -> None:
        if connection is not None:
            self._metrics.cut.labels(connection.stage.value).inc()
            connection.cut()

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in self._connections.silent_since(loop.time() - self._silent):
            self._end(connection)
        self._sweep = loop.call_later(min(1.0, self._silent), self._sweep_later)


def _allow_files() -> None:
    """Container runtimes allow 1,024 open files, and more to a process that asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        allowed = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
