"""aiohttp's server with limits for each connection. It reports the stage of each connection to `Connections`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

from webhook.server.connections import Connection, Connections, Stage
from webhook.server.handshakes import Rate
from webhook.telemetry.metrics import Metrics

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

MAX_UNREAD: Final = 64 << 10
"""Bytes that a connection may hold in each buffer: the kernel's, the parser's, and that of unread answers. With
MAX_CONNECTIONS, all buffers of one kind hold 64 MiB, of 1 GiB in the container."""
MAX_HEADERS, MAX_HEADER_SIZE = 32, 2048
"""An API server sends seven short headers. With the limits of aiohttp each connection could hold 1 MiB."""
MAX_PIPELINED: Final = 2
"""A connection with this many requests in its queue is cut. An API server waits for each answer before it sends more."""


class Handler(web.RequestHandler):
    """The protocol object of one connection."""

    __slots__ = ("connection", "established")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.connection: Connection
        self.established = False
        self._max_msg_queue_size, self._msg_queue_resume_size = MAX_PIPELINED, MAX_PIPELINED - 1

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if len(self._messages) >= MAX_PIPELINED and self.transport is not None:
            self.transport.abort()


class Server(web.Server):
    """aiohttp's server, which also knows each transport until it is closed. aiohttp forgets one when its closing begins."""

    def __init__(
        self, handle: Handle, connections: Connections, rate: Rate, authenticated: bool, **options: Any
    ) -> None:
        limits = {"max_line_size": MAX_HEADER_SIZE, "max_field_size": MAX_HEADER_SIZE, "max_headers": MAX_HEADERS}
        options |= limits | {"read_bufsize": MAX_UNREAD // 2, "lingering_time": 0.0, "access_log": None}
        super().__init__(self._handle, **options)
        self._options = options
        self._inner = handle
        self._stages = connections
        self._rate = rate
        self._authenticated = authenticated
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._all_closed = asyncio.Event()

    def __call__(self) -> Handler:
        return Handler(self, loop=self._loop, **self._options)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast(Handler, request.protocol).connection
        now, stage, since = self._loop.time, connection.stage, connection.since
        status = None

        def body_complete() -> None:
            if status is None:
                self._stages.move(connection, Stage.BUSY, now())

        if stage is Stage.IDLE:
            self._stages.move(connection, Stage.IDLE, now())  # now it is the youngest idle connection
        request.content.on_eof(body_complete)
        try:
            response = await self._inner(request)
            status = response.status
            return response
        finally:
            if status == 200:
                self._rate.answered(connection.peer, now())
            if status == 200 or stage is Stage.IDLE:
                self._stages.move(connection, Stage.IDLE, now())
            else:
                self._stages.move(connection, Stage.SILENT, since if stage is Stage.SILENT else now())
            status = status or 500

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        handler = cast(Handler, handler)
        transport.set_write_buffer_limits(high=MAX_UNREAD)
        handler.established = True
        handler.connection.cut = transport.abort
        self._open[handler] = transport
        if self._authenticated:
            self._rate.answered(handler.connection.peer, self._loop.time())
            self._stages.move(handler.connection, Stage.IDLE, self._loop.time())

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._stages.remove(cast(Handler, handler).connection)
        self._open.pop(handler, None)
        if not self._open:
            self._all_closed.set()

    async def closed(self, seconds: float) -> None:
        """Wait until all connections are closed. Those that are open after `seconds` are cut."""
        for wait in (seconds, 0.1):
            self._all_closed.clear()
            if self._open:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._all_closed.wait(), wait)
            for transport in self._open.values():
                transport.abort()


def is_no_bad_request(record: logging.LogRecord, metrics: Metrics) -> bool:
    """A filter for the log of aiohttp. A request that is no HTTP is counted as refused and not logged: it could fill the log."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        metrics.refused.labels("400").inc()
        return False
    return True
