"""A listening socket around an aiohttp handler, with every limit that a stranger on the network can run into."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

from webhook.server.connections import Connection, Connections, Stage
from webhook.server.sockets import allow_files, listening

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

KEEPALIVE_SECONDS: Final = 120.0
"""Above the 90 s after which Go's client drops an idle connection: whoever closes first must not be us, since a POST
that meets a closing connection is not repeated, and the creation of the pod fails with EOF."""
HANDSHAKE_SECONDS: Final = 5.0
"""For the TLS handshake; asyncio would wait a minute for a socket that says nothing."""
SILENT_SECONDS: Final = 10.0
"""From the connection to the first review. An API server dials because it has a call to make; when another connection is free
sooner it keeps the new one unused, and is not hurt when that closes, unless it asks at the very same millisecond."""
MOST_CONNECTIONS: Final = 1024
"""It bounds memory: see MOST_UNREAD. An API server keeps 25 idle connections and adds one for each call under way, some
hundreds in a burst."""
MOST_UNREAD: Final = 64 << 10
"""Bytes that a connection may hold in each place between network and handler: the kernel's buffer, the parser's, and that of
answers that are not read. With MOST_CONNECTIONS that is 64 MiB a place, of the 1 GiB that the container has."""
MOST_HEADERS, LONGEST_HEADER = 32, 2048
"""An API server sends seven short ones. aiohttp's own limits would let each connection keep 1 MiB."""
MOST_AHEAD: Final = 2
"""Requests that one connection may have sent before the first is answered. An API server sends one."""
LINGER_SECONDS: Final = 1.0
"""How long a refused body is still read, so that the client sees the answer and not a reset connection."""
CLOSE_SECONDS: Final = 0.5
"""At the end, for clients to say goodbye in TLS; then their connections are cut."""
ACCEPTS: Final = 16
"""New connections in one turn of the loop. A handshake takes about a millisecond: those who have a connection do not wait."""


class Listener:
    """`start`, `stop`; in between every connection is served by `handle`."""

    def __init__(
        self,
        handle: Handle,
        tls: ssl.SSLContext | None = None,
        *,
        most: int = MOST_CONNECTIONS,
        keepalive: float = KEEPALIVE_SECONDS,
        silent: float = SILENT_SECONDS,
        known: bool = False,
        bad_request: Callable[[], None] = lambda: None,
        cut: Callable[[str], None] = lambda stage: None,
    ) -> None:
        """`known`: whoever gets through the handshake has shown a client certificate, and may be silent.

        `bad_request` is called for each request that is not HTTP, `cut` for each connection that had to go, with its stage."""
        self._tls = tls
        self._silent = silent
        self._cut = cut
        self._socket: socket.socket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._handshakes: set[asyncio.Task[None]] = set()
        self._connections = Connections(most)
        logger = logging.Logger("http", logging.DEBUG)  # not a registered one: its filter ends with this listener
        logger.parent = logging.getLogger()
        logger.addFilter(lambda record: _worth_a_line(record, bad_request))
        # Not an AppRunner: application, router and signals cost a tenth of a request and give nothing here.
        self._server = _Server(handle, self._connections, known, keepalive_timeout=keepalive, logger=logger)

    async def start(self, host: str, port: int) -> int:
        """Listen. The port that it became, for port 0. Raises OSError where the address cannot be had."""
        allow_files()
        self._socket = await listening(host, port, MOST_UNREAD)
        asyncio.get_running_loop().add_reader(self._socket, self._accept)
        self._sweep_later()
        found: int = self._socket.getsockname()[1]
        return found

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
        for handshake in self._handshakes:
            handshake.cancel()
        await self._server.closed(CLOSE_SECONDS)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def _accept(self) -> None:
        """Not `loop.create_server`: that shows a connection only after its handshake, when it has cost most already."""
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
            self._begin(accepted, str(address[0]))

    def _begin(self, accepted: socket.socket, peer: str) -> None:
        loop = asyncio.get_running_loop()
        handler = self._server()
        task = loop.create_task(self._serve(accepted, handler))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        handler.connection = Connection(peer, task.cancel)
        task.add_done_callback(lambda _: None if handler.made else self._never_made(accepted, handler.connection))
        self._end(self._connections.add(handler.connection, loop.time()))

    async def _serve(self, accepted: socket.socket, handler: _Handler) -> None:
        seconds = HANDSHAKE_SECONDS if self._tls else None
        with suppress(OSError):  # it broke off, took too long, or showed no certificate that we take
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: handler,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )

    def _never_made(self, accepted: socket.socket, connection: Connection) -> None:
        self._connections.remove(connection)
        accepted.close()

    def _end(self, connection: Connection | None) -> None:
        if connection is not None:
            self._cut(connection.stage.value)
            connection.cut()

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in self._connections.silent_since(loop.time() - self._silent):
            self._end(connection)
        self._sweep = loop.call_later(min(1.0, self._silent), self._sweep_later)


class _Handler(web.RequestHandler):
    """aiohttp's end of one connection."""

    __slots__ = ("connection", "made")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.connection: Connection
        self.made = False
        self._max_msg_queue_size, self._msg_queue_resume_size = MOST_AHEAD, MOST_AHEAD - 1


class _Server(web.Server):
    """Tells `Connections` what each connection does.

    It also knows every transport until that is really closed: aiohttp forgets it as soon as the closing begins.
    """

    def __init__(self, handle: Handle, connections: Connections, known: bool, **options: Any) -> None:
        limits = {"max_line_size": LONGEST_HEADER, "max_field_size": LONGEST_HEADER, "max_headers": MOST_HEADERS}
        options |= limits | {"read_bufsize": MOST_UNREAD // 2, "lingering_time": LINGER_SECONDS, "access_log": None}
        super().__init__(self._handle, **options)
        self._options = options
        self._inner = handle
        self._connected = connections
        self._first = Stage.IDLE if known else Stage.SILENT
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._all_closed = asyncio.Event()

    def __call__(self) -> _Handler:
        return _Handler(self, loop=self._loop, **self._options)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast(_Handler, request.protocol).connection
        now = self._loop.time
        before, answered = connection.stage, False

        def whole() -> None:
            if not answered:
                self._connected.move(connection, Stage.BUSY, now())

        if before is Stage.IDLE:
            self._connected.move(connection, Stage.IDLE, now())  # of those it is the youngest now
        request.content.on_eof(whole)
        since = connection.since if before is Stage.SILENT else now()
        answer = None
        try:
            answer = await self._inner(request)
        finally:
            answered = True
            asked = answer is not None and answer.status == 200
            after = Stage.IDLE if asked or before is Stage.IDLE else Stage.SILENT
            self._connected.move(connection, after, now() if after is Stage.IDLE else since)
        return answer

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        handler = cast(_Handler, handler)
        transport.set_write_buffer_limits(high=MOST_UNREAD)
        handler.made = True
        handler.connection.cut = transport.abort
        self._open[handler] = transport
        if self._first is Stage.IDLE:
            self._connected.move(handler.connection, Stage.IDLE, self._loop.time())

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._connected.remove(cast(_Handler, handler).connection)
        self._open.pop(handler, None)
        if not self._open:
            self._all_closed.set()

    async def closed(self, seconds: float) -> None:
        """Until every connection is closed; after `seconds` what is left is cut."""
        for wait in (seconds, 0.1):
            self._all_closed.clear()
            if self._open:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._all_closed.wait(), wait)
            for transport in self._open.values():
                transport.abort()


def _worth_a_line(record: logging.LogRecord, bad_request: Callable[[], None]) -> bool:
    """A stranger who talks no HTTP is counted, but cannot fill the log."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        bad_request()
        return False
    return True
