"""aiohttp's end of connections: its limits, and what each connection does, told to `Connections`."""

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

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

MOST_UNREAD: Final = 64 << 10
"""Bytes that a connection may hold in each place between network and handler: the kernel's buffer, the parser's, and that of
answers that are not read. With MOST_CONNECTIONS that is 64 MiB a place, of the 1 GiB that the container has."""
MOST_HEADERS, LONGEST_HEADER = 32, 2048
"""An API server sends seven short ones. aiohttp's own limits would let each connection keep 1 MiB."""
MOST_AHEAD: Final = 2
"""Requests that one connection may have sent before the first is answered: with so many it is cut. An API server sends one."""


class Handler(web.RequestHandler):
    """aiohttp's end of one connection."""

    __slots__ = ("connection", "made")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.connection: Connection
        self.made = False
        self._max_msg_queue_size, self._msg_queue_resume_size = MOST_AHEAD, MOST_AHEAD - 1

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if len(self._messages) >= MOST_AHEAD and self.transport is not None:
            self.transport.abort()


class Server(web.Server):
    """Tells `Connections` what each connection does.

    It also knows every transport until that is really closed: aiohttp forgets it as soon as the closing begins.
    """

    def __init__(self, handle: Handle, connections: Connections, rate: Rate, known: bool, **options: Any) -> None:
        limits = {"max_line_size": LONGEST_HEADER, "max_field_size": LONGEST_HEADER, "max_headers": MOST_HEADERS}
        options |= limits | {"read_bufsize": MOST_UNREAD // 2, "lingering_time": 0.0, "access_log": None}
        super().__init__(self._handle, **options)
        self._options = options
        self._inner = handle
        self._connected = connections
        self._rate = rate
        self._first = Stage.IDLE if known else Stage.SILENT
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._all_closed = asyncio.Event()

    def __call__(self) -> Handler:
        return Handler(self, loop=self._loop, **self._options)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = cast(Handler, request.protocol).connection
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
            if asked:
                self._rate.answered(connection.peer, now())
            after = Stage.IDLE if asked or before is Stage.IDLE else Stage.SILENT
            self._connected.move(connection, after, now() if after is Stage.IDLE else since)
        return answer

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        handler = cast(Handler, handler)
        transport.set_write_buffer_limits(high=MOST_UNREAD)
        handler.made = True
        handler.connection.cut = transport.abort
        self._open[handler] = transport
        if self._first is Stage.IDLE:
            self._rate.answered(handler.connection.peer, self._loop.time())
            self._connected.move(handler.connection, Stage.IDLE, self._loop.time())

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._connected.remove(cast(Handler, handler).connection)
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


def worth_a_line(record: logging.LogRecord, bad_request: Callable[[], None]) -> bool:
    """A stranger who talks no HTTP is counted, but cannot fill the log."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        bad_request()
        return False
    return True
