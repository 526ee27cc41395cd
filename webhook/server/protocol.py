"""aiohttp's protocol of one connection, and a gate before it that lets in one request at a time and bounds its work."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

from webhook.server.load import Bounded, Held
from webhook.server.response import MAX_UNREAD, TEXT, response

MAX_HEAD: Final = 16 << 10
"""Bytes of the first line and the headers of a request. An API server sends half a kilobyte."""
FREE_PIECES, PIECE = 64, 1 << 10
"""A request may come in this many pieces, and one more for each KiB. Go's TLS sends at least 1,179 bytes in one."""
FREE_FRAMES: Final = 64 << 10
"""Bytes that a request may take on the wire beside twice its own: what the kernel and an incomplete record hold, and frames. A
record of one byte takes 23, and as long as one of a KiB."""
LINGER_SECONDS: Final = 1.0
"""Time that a connection stays open after a refusal, so that the client reads the answer before the connection is reset."""
SEND_SECONDS: Final = 5.0
"""Maximum time for a client to read an answer."""
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)


class Handler(web.RequestHandler):
    """The protocol of one connection. `unread` counts large answers; `refused` is called for a request that is no HTTP."""

    __slots__ = ("connection", "lost", "refused", "unread")

    def __init__(
        self,
        connection: Held,
        unread: Bounded,
        lost: Callable[[Held], object],
        refused: Callable[[], object],
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.connection, self.unread, self.lost, self.refused = connection, unread, lost, refused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        made = cast(asyncio.Transport, transport)
        made.set_write_buffer_limits(high=MAX_UNREAD)
        self.connection.cut = made.abort

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.lost(self.connection)

    def handle_error(self, request: web.BaseRequest, *args: Any, **details: Any) -> web.StreamResponse:
        error = details.get("exc", args[1] if len(args) > 1 else None)
        if not isinstance(error, HttpProcessingError):
            return super().handle_error(request, *args, **details)
        self.refused()  # and not logged: it could fill the log
        return response(400, b"saw something else, wanted HTTP/1.1\n", TEXT, close=True)

    async def finish_response(self, request: web.BaseRequest, resp: web.StreamResponse, start: Any) -> Any:
        """Send an answer, for a bounded time."""
        transport, size = self.transport, resp.content_length or 0
        if transport is None:
            raise ConnectionResetError("the client went away")
        held = Held(self.connection.peer, transport.abort)
        if size > MAX_UNREAD:
            self.unread.add(held, size)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return await super().finish_response(request, resp, start)
        except TimeoutError:
            transport.abort()
            raise ConnectionResetError("the client did not read") from None
        finally:
            self.unread.remove(held)
            if resp.status >= 400 and not resp.keep_alive and not transport.is_closing():
                transport.pause_reading()
                await asyncio.sleep(LINGER_SECONDS)
                transport.abort()  # close() would read, in TLS, everything that the client still sends


class Gate(Handler):
    """Bounds what a stranger can do with one connection. A body without its length is not parsed."""

    __slots__ = ("before", "connections", "head", "left", "pieces", "received", "without_length")

    def __init__(self, connections: Bounded, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.connections, self.head = connections, bytearray()
        self.left: int | None = None
        """Bytes of the body that are still to come; None while the head is not complete."""
        self.without_length = False
        self.received, self.pieces, self.before = 0, 0, 0
        """Bytes and pieces of this request; all bytes on the wire before it."""

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.pieces += bool(data)
        frames = self._on_the_wire() - self.before - 2 * self.received
        if self.pieces > FREE_PIECES + self.received // PIECE or frames > FREE_FRAMES or len(self.head) > MAX_HEAD:
            self.connection.cut()
        elif not data:  # aiohttp calls itself to parse what it has
            super().data_received(data)
        elif self.left is not None:
            self._of_body(data)
        else:
            searched = max(0, len(self.head) - 3)
            self.head += data
            if (end := self.head.find(b"\r\n\r\n", searched) + 4) > 3:
                head, rest = bytes(self.head[:end]), bytes(self.head[end:])
                length = None if b"\r\ntransfer-encoding:" in head.lower() else _LENGTH.search(head)
                self.left, self.without_length, self.head = int(length[1]) if length else 0, not length, bytearray()
                self.connections.unused(self.connection)  # since now
                super().data_received(head)
                self._of_body(rest)

    def _of_body(self, data: bytes) -> None:
        if self.left is not None and not self.without_length:
            self.left -= len(data)
        if not self.left:
            self.connections.used(self.connection)
        elif self.left < 0:  # a second request: no API server sends one before the first is answered
            self.connection.cut()
            return
        if data and not self.without_length:
            super().data_received(data)

    async def finish_response(self, request: web.BaseRequest, resp: web.StreamResponse, start: Any) -> Any:
        """The answer is decided, and the next request may come."""
        self.left, self.without_length = None, False
        self.received, self.pieces, self.before = 0, 0, self._on_the_wire()
        if self.connection.size:
            self.connections.unused(self.connection)
        return await super().finish_response(request, resp, start)

    def _on_the_wire(self) -> int:
        """Bytes that the kernel has received on this connection: `tcpi_bytes_received` of linux/tcp.h."""
        found = self.transport.get_extra_info("socket") if self.transport else None
        info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136) if found else b""
        return int(struct.unpack_from("Q", info, 128)[0]) if len(info) == 136 else 0
