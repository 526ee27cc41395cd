"""Requests to the API server: JSON in and out as plain dicts. The models of kubernetes-asyncio would cost more than the rest
of the program: building one of each pod, and memory."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final

import aiohttp
import orjson
from aiohttp import ClientTimeout, hdrs

from webhook.errors import ApiError, BadInput
from webhook.feeds.access import Access
from webhook.text import quoted

Object = dict[str, Any]
REQUEST_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0
_ALIVE: Final = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""Seconds, seconds, number, milliseconds: a peer that is gone without a word (its node is lost, a NAT forgot the connection)
is given up by the kernel after ten seconds, whatever the watch has to say. Only where the system has these: Linux has all
of them."""
_MAX_LINE = 16 << 20
"""Bytes of one event: ten times what etcd stores as one object."""
_HEADERS = {hdrs.ACCEPT: "application/json", hdrs.ACCEPT_ENCODING: "identity", hdrs.USER_AGENT: "gpu-admission"}
"""`identity`: within a cluster packing and unpacking a list takes longer than sending it."""


class Api:
    """An async context around a pool of connections. Every failure is an ApiError; `status` 0 is one of the network.

    Entering it raises BadInput where it is not known how to reach the API server at all.
    """

    def __init__(self, access: Callable[[], Awaitable[Access]]) -> None:
        """`access` is asked again when its answer gets old, and at once when it was not accepted."""
        self._ask = access
        self._access: Access | None = None
        self._asked = 0.0

    async def __aenter__(self) -> Api:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket),
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        try:
            await self._current()
        except BadInput:
            await self._session.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, path: str, **query: str) -> Object:
        return await self._request("GET", path, None, query)

    async def post(self, path: str, obj: Object) -> Object:
        return await self._request("POST", path, obj, {})

    async def put(self, path: str, obj: Object) -> Object:
        """`obj` has the resourceVersion that it was read with: status 409 if it was changed since."""
        return await self._request("PUT", path, obj, {})

    async def patch(self, path: str, changes: Object) -> Object:
        """A merge patch. With a resourceVersion in it: status 409 if the object was changed since."""
        return await self._request("PATCH", path, changes, {})

    async def _request(self, method: str, path: str, obj: Object | None, query: dict[str, str]) -> Object:
        limits = ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)
        async with self._open(method, path, obj, query, limits) as response:
            answer = orjson.loads(await response.read())
        if not isinstance(answer, dict):
            raise ApiError(0, f"{method} {path}: wanted a JSON object, saw {type(answer).__name__}")
        return answer

    async def lines(self, path: str, word: str, seconds: float = REQUEST_SECONDS) -> list[str]:
        """The lines of a text, such as metrics, that have `word` in them: of megabytes a few."""
        limits = ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
        async with self._open("GET", path, None, {}, limits) as response:
            matching, needle = [], word.encode()
            async for bunch in _lines(response.content):
                matching += [line.decode(errors="replace") for line in bunch if needle in line]
        return matching

    @asynccontextmanager
    async def watch(
        self, path: str, seconds: float, query: dict[str, str]
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """The events of a watch as JSON lines, in bunches as they arrive; broken off after `seconds` of silence."""
        limits = ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=seconds)
        async with self._open("GET", path, None, query, limits) as response:
            yield _lines(response.content)

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, obj: Object | None, query: dict[str, str], limits: ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {hdrs.CONTENT_TYPE: "application/merge-patch+json" if method == "PATCH" else "application/json"}
        try:
            access = await self._current()
            if access.authorization:
                headers[hdrs.AUTHORIZATION] = access.authorization
            async with self._session.request(
                method,
                access.base + path,
                params=query,
                data=orjson.dumps(obj) if obj is not None else None,
                headers=headers,
                timeout=limits,
                ssl=access.tls if access.tls is not None else True,
                server_hostname=access.server_name,
                allow_redirects=False,
            ) as response:
                if response.status == 401:
                    self._access = None
                if response.status >= 300:
                    raise ApiError(response.status, f"{method} {path}: {response.status}: {await message(response)}")
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError, BadInput) as error:
            text = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else "")
            raise ApiError(0, f"{method} {path}: {type(error).__name__}: {text}") from error

    async def _current(self) -> Access:
        now = time.monotonic()
        if self._access is None or now - self._asked > self._access.lasts:
            self._access, self._asked = await self._ask(), now
        return self._access


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """One that notices when the other side is gone."""
    family, kind, protocol, *_ = address
    connection = socket.socket(family, kind, protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines. aiohttp's own would not take a line that is longer than its buffer."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE:
            raise ApiError(0, f"watch: an event of more than {_MAX_LINE} bytes")
        yield lines
        await asyncio.sleep(0)  # a long burst of events: reviews are answered in between


async def message(response: aiohttp.ClientResponse) -> str:
    """What a server says about its refusal: the message of a Status, else the text as it is."""
    body = await response.content.read(4096)
    try:
        return quoted(orjson.loads(body)["message"])
    except (ValueError, LookupError, TypeError):
        return quoted(body.decode(errors="replace"))
