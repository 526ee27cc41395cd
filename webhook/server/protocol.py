"""aiohttp's protocol of one connection, and a gate before it that lets in one request at a time and bounds its work."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

from webhook.server.http_response import MAX_UNREAD, TEXT, Response
from webhook.server.load import Bounded, Held

MAX_HEAD: Final = 16 << 10
"""Bytes of the first line and the headers of a request. An API server sends half a kilobyte."""
FREE_PIECES, PIECE = 64, 1 << 10
"""A request may come in this many pieces, and one more for each KiB. Go's TLS sends at least 1,179 bytes in one."""
FREE_FRAMES: Final = 64 << 10
"""Bytes that a request may take on the wire beside twice its own: what the kernel and an incomplete record hold, and frames. A
record of one byte takes 23, and as long as one of a KiB."""


class Handler(web.RequestHandler):
    """The protocol of one connection. `refused` is called for a request that is no HTTP."""

    __slots__ = ("connection", "lost", "refused")

    def __init__(
        self,
        connection: Held,
        lost: Callable[[Held], object],
        refused: Callable[[], object],
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.connection, self.lost, self.refused = connection, lost, refused

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
        return Response(400, b"saw something else, wanted HTTP/1.1\n", TEXT, close=True)


class Gate(Handler):
    """Bounds what a stranger can do with one connection. No body is parsed before the head of its request is accepted."""

    __slots__ = ("answering", "before", "connections", "head", "left", "pieces", "received", "rest")

    def __init__(self, connections: Bounded, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.connections = connections
        self.head, self.rest = bytearray(), bytearray()
        """A head that is not complete; what came after a complete one."""
        self.answering = False
        """A whole head has come, and is not answered."""
        self.left: int | None = None
        """Bytes of the body that are still to come; None before its head is accepted."""
        self.received, self.pieces, self.before = 0, 0, 0
        """Bytes and pieces of this request; all bytes on the wire before it."""

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.pieces += bool(data)
        frames = self._on_the_wire() - self.before - 2 * self.received
        if self.pieces > FREE_PIECES + self.received // PIECE or frames > FREE_FRAMES or len(self.head) > MAX_HEAD:
            self.connection.cut()
        elif self.left or not data:  # without data, aiohttp calls itself to parse what it has
            self._of_body(data)
        elif self.answering:
            self.rest += data
            if len(self.rest) > MAX_UNREAD and self.transport is not None:
                self.transport.pause_reading()
        else:
            searched = max(0, len(self.head) - 3)
            self.head += data
            if (end := self.head.find(b"\r\n\r\n", searched) + 4) > 3:
                self.connections.unused(self.connection)  # since now
                self.answering, head = True, bytes(self.head[:end])
                self.rest, self.head = self.head[end:], bytearray()
                super().data_received(head)

    def let_in(self, size: int) -> None:
        """The head of the request is accepted; its body has this size."""
        rest, self.rest, self.left = bytes(self.rest), bytearray(), size
        if len(rest) > MAX_UNREAD and self.transport is not None:
            self.transport.resume_reading()
        self._of_body(rest)

    def _of_body(self, data: bytes) -> None:
        if self.left is not None:
            self.left -= len(data)
            if not self.left:
                self.connections.used(self.connection)
        if (
            self.left is not None and self.left < 0
        ):  # a second request: no API server sends one before the first is answered
            self.connection.cut()
        else:
            super().data_received(data)

    def answered(self) -> None:
        """The answer is decided, and the next request may come."""
        if self.rest and self.left == 0:
            self.connection.cut()
        self.answering, self.left, self.rest = False, None, bytearray()
        self.received, self.pieces, self.before = 0, 0, self._on_the_wire()
        if self.connection.size:
            self.connections.unused(self.connection)

    def _on_the_wire(self) -> int:
        """Bytes that the kernel has received on this connection: `tcpi_bytes_received` of linux/tcp.h."""
        found = self.transport.get_extra_info("socket") if self.transport else None
        info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136) if found else b""
        return int(struct.unpack_from("Q", info, 128)[0]) if len(info) == 136 else 0


def let_in(request: web.BaseRequest, size: int) -> None:
    """Accept the head of a request. Its body has this size."""
    if isinstance(request.protocol, Gate):
        request.protocol.let_in(size)
