"""An HTTP response that holds bounded memory for a bounded time, and that a refused client can still read."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from webhook.server.load import Transfers

LINGER_SECONDS: Final = 1.0
"""Time that a connection stays open after a refusal, so that the client reads the answer before the connection is reset. Nothing
more is read from it."""
SEND_SECONDS: Final = 5.0
"""Maximum time for a client to read an answer."""
JSON, TEXT = "application/json", "text/plain; charset=utf-8"
_PIECE: Final = 64 << 10
"""Bytes that the buffers of each connection may hold: see `protocol.MAX_UNREAD`. A larger answer is sent in pieces of this size
and counted until it is read."""
_HEAD: Final = 1024
"""Maximum size of the status line and headers of an answer."""


class Response(web.StreamResponse):
    _send_headers_immediately = False
    """Headers and body go out in one write, as in `web.Response`: a second TLS record would cost the server 40 µs."""

    def __init__(
        self,
        status: int,
        body: bytes,
        content_type: str = JSON,
        *,
        close: bool = False,
        allow: str = hdrs.METH_POST,
        unread: Transfers | None = None,
    ) -> None:
        """`close`: close the connection afterwards. `allow`: the method that a 405 names. `unread`: counts a large answer."""
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
            transport.abort()  # close() would read, in TLS, everything that the client still sends

    async def _send(self, transport: asyncio.Transport) -> None:
        """Send the body as fast as the client reads it: the transport would buffer all of it."""
        assert self._req is not None
        peer, size = self._req.remote or "", len(self._unsent)
        transfer = self._unread.begin(peer, size, transport.abort) if self._unread and size > _PIECE else None
        try:
            async with asyncio.timeout(SEND_SECONDS):
                while len(self._unsent) > _PIECE:
                    await self.write(self._unsent[:_PIECE])
                    self._unsent = self._unsent[_PIECE:]
                    if transfer and self._unread:
                        self._unread.progress(transfer, _PIECE)
                await super().write_eof(self._unsent)  # type: ignore[arg-type]
        except TimeoutError:
            transport.abort()
            raise ConnectionResetError("the client did not read") from None
        finally:
            if transfer and self._unread:
                self._unread.end(transfer)
