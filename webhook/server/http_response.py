"""A response that holds memory for a bounded time, and lets a client that is refused read why."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from webhook.server.load import Bytes

LINGER_SECONDS: Final = 1.0
"""How long a connection that we close after a refusal stays open, so that the client sees the answer and not a reset. Nothing
more is read of it."""
SEND_SECONDS: Final = 5.0
"""For an answer to be read. The API server reads what it has asked for."""
JSON, TEXT = "application/json", "text/plain; charset=utf-8"
_PIECE: Final = 64 << 10
"""Bytes that the buffers of each connection may have: see `protocol.MAX_UNREAD`. A larger answer counts until it is read."""
_HEAD: Final = 1024
"""Bytes that the head of an answer has at most."""


class Answer(web.StreamResponse):
    _send_headers_immediately = False
    """Head and body are one write, as those of `web.Response`: two TLS records would cost the server 40 µs more."""

    def __init__(
        self,
        status: int,
        body: bytes,
        content_type: str = JSON,
        *,
        close: bool = False,
        allow: str = hdrs.METH_POST,
        unread: Bytes | None = None,
    ) -> None:
        """`close`: the connection ends with it. `allow`: what 405 names. `unread`: where it counts until it is read."""
        headers = {
            hdrs.CONTENT_TYPE: content_type,
            hdrs.CONTENT_LENGTH: str(len(body)),
            hdrs.SERVER: "gpu-admission",
        }
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers[hdrs.RETRY_AFTER] = "1"
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers[hdrs.ALLOW] = allow
        super().__init__(status=status, headers=headers)
        if close:
            self.force_close()
        self._unsent = memoryview(body)
        self._unread = unread

    async def write_eof(self, data: bytes = b"") -> None:
        transport = self._req.transport if self._req else None
        if transport is None:
            raise ConnectionResetError("the client went away")
        if _HEAD + len(self._unsent) + transport.get_write_buffer_size() < _PIECE:
            await super().write_eof(self._unsent)  # type: ignore[arg-type]  # the transport takes it at once
        else:
            await self._send(transport)
        if self.status >= 400 and not self.keep_alive:
            transport.pause_reading()
            await asyncio.sleep(LINGER_SECONDS)
            transport.abort()  # to close it would be to read, in TLS, all that still comes

    async def _send(self, transport: asyncio.Transport) -> None:
        """As fast as it is read: a transport would take all of it at once."""
        assert self._req is not None
        peer, size = self._req.remote or "", len(self._unsent)
        large = self._unread.begin(peer, size, transport.abort) if self._unread and size > _PIECE else None
        try:
            async with asyncio.timeout(SEND_SECONDS):
                while len(self._unsent) > _PIECE:
                    await self.write(self._unsent[:_PIECE])
                    self._unsent = self._unsent[_PIECE:]
                    if large and self._unread:
                        self._unread.arrived(large, _PIECE)
                await super().write_eof(self._unsent)  # type: ignore[arg-type]
        except TimeoutError:
            transport.abort()
            raise ConnectionResetError("the client did not read") from None
        finally:
            if large and self._unread:
                self._unread.end(large)
