"""The HTTP responses of both servers."""

from __future__ import annotations

import io
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

MAX_UNREAD: Final = 64 << 10
"""Bytes that a connection may hold in each buffer: in the parser, and of unread answers. All buffers of one kind hold 64 MiB, of
1 GiB in the container. A larger answer is counted until it is read."""
JSON, TEXT = "application/json", "text/plain; charset=utf-8"


def response(
    status: int, body: bytes, content_type: str = JSON, *, close: bool = False, allow: str = hdrs.METH_POST
) -> web.Response:
    """`close`: close the connection afterwards. `allow`: the method that a 405 names."""
    headers = {hdrs.CONTENT_TYPE: content_type, hdrs.CONTENT_LENGTH: str(len(body)), hdrs.SERVER: "gpu-admission"}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers[hdrs.RETRY_AFTER] = "1"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers[hdrs.ALLOW] = allow
    pieces = io.BytesIO(body) if len(body) > MAX_UNREAD else body  # TLS would take all of it at once
    made = web.Response(status=status, body=pieces, headers=headers)
    if close:
        made.force_close()
    return made
