"""A response that costs little, and is sent no faster than it is read."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

from aiohttp import web

from webhook.server.load import Bytes

LINGER_SECONDS: Final = 1.0
"""How long a connection that we close after a refusal stays open, so that the client sees the answer and not a reset. Nothing
more is read of it."""
SEND_SECONDS: Final = 5.0
"""For an answer to be read. The API server reads what it has asked for."""

_HEAD = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n%b"
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
JSON, TEXT = b"application/json", b"text/plain; charset=utf-8"
CLOSE = b"Connection: close\r\n"
_PIECE: Final = 64 << 10


class Answer(web.StreamResponse):
    """A response whose head is made in one go. Not for HEAD, streaming, cookies or compression.

    aiohttp's own builds a multidict of headers first and serialises it again: a quarter of the whole request here.
    """

    def __init__(
        self, status: int, body: bytes, content: bytes = JSON, extra: bytes = b"", held: Bytes | None = None
    ) -> None:
        """`held`: where an answer that is not read counts."""
        # The base class would build what is not used; finish_response needs prepare, write_eof and keep_alive only.
        self._status = status
        self._answer = body
        self._content = content
        self._extra = extra
        self._keep = CLOSE not in extra
        self._held = held

    @property
    def keep_alive(self) -> bool:
        return self._keep

    async def prepare(self, request: web.BaseRequest) -> None:
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client went away")
        if self._keep and not request.keep_alive:
            self._keep, self._extra = False, self._extra + CLOSE
        head = (self._status, _REASONS[self._status], self._content, len(self._answer), self._extra, self._answer)
        written = _HEAD % head
        transport.write(written[:_PIECE] if len(written) > _PIECE else written)
        if request.protocol.writing_paused or len(written) > _PIECE:
            await self._send(request, transport, memoryview(written)[_PIECE:])
        if not self._keep and self._status >= HTTPStatus.BAD_REQUEST:
            transport.pause_reading()
            await asyncio.sleep(LINGER_SECONDS)
            transport.abort()  # to close it would be to read, in TLS, all that still comes

    async def _send(self, request: web.BaseRequest, transport: asyncio.Transport, rest: memoryview) -> None:
        """The rest, as fast as it is read. Transports would take it at once, and not tell how much they keep."""
        slow = self._held.begin(request.remote or "", len(rest), transport.abort) if self._held else None
        try:
            async with asyncio.timeout(SEND_SECONDS):
                while True:
                    await request.protocol._drain_helper()
                    if not rest:
                        return
                    transport.write(rest[:_PIECE])
                    if slow and self._held:
                        self._held.moved(slow, _PIECE)
                    rest = rest[_PIECE:]
        except TimeoutError:
            transport.abort()
            raise ConnectionResetError("the client did not read") from None
        finally:
            if slow and self._held:
                self._held.end(slow)

    async def write_eof(self, data: bytes = b"") -> None:
        pass
