"""An HTTP response that holds bounded memory for a bounded time, and that a refused client can still read."""

from __future__ import annotations

import asyncio
import io
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter

from webhook.server.load import Bounded, Held

MAX_UNREAD: Final = 64 << 10
"""Bytes that a connection may hold in each buffer: before the parser, in it, and of unread answers. All buffers of one kind hold
64 MiB, of 1 GiB in the container. A larger answer is counted until it is read."""

LINGER_SECONDS: Final = 1.0
"""Time that a connection stays open after a refusal, so that the client reads the answer before the connection is reset. Nothing
more is read from it."""
SEND_SECONDS: Final = 5.0
"""Maximum time for a client to read an answer."""
JSON, TEXT = "application/json", "text/plain; charset=utf-8"


class Response(web.Response):
    def __init__(
        self,
        status: int,
        body: bytes,
        content_type: str = JSON,
        *,
        close: bool = False,
        allow: str = hdrs.METH_POST,
        unread: Bounded | None = None,
    ) -> None:
        """`close`: close the connection afterwards. `allow`: the method that a 405 names. `unread`: counts a large answer."""
        headers = {hdrs.CONTENT_TYPE: content_type, hdrs.SERVER: "gpu-admission"}
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers[hdrs.RETRY_AFTER] = "1"
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers[hdrs.ALLOW] = allow
        self._size = len(body)
        pieces = io.BytesIO(body) if self._size > MAX_UNREAD else body  # TLS would take all of it at once
        super().__init__(status=status, body=pieces, headers=headers)
        if close:
            self.force_close()
        self._unread = unread
        self._request: web.BaseRequest | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        self._request = request
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        transport = self._request.transport if self._request else None
        if self._request is None or transport is None:
            raise ConnectionResetError("the client went away")
        held = Held(self._request.remote or "", transport.abort)
        if self._unread is not None and self._size > MAX_UNREAD:
            self._unread.add(held, self._size)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await super().write_eof(data)
        except TimeoutError:
            transport.abort()
            raise ConnectionResetError("the client did not read") from None
        finally:
            if self._unread is not None:
                self._unread.remove(held)
        if self.status >= 400 and not self.keep_alive:
            transport.pause_reading()
            await asyncio.sleep(LINGER_SECONDS)
            transport.abort()  # close() would read, in TLS, everything that the client still sends
