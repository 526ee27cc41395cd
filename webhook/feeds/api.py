"""A client of the API server. Objects are plain dicts.

The models of kubernetes-asyncio would take more CPU time and memory than the rest of the program.
"""

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, Self

import aiohttp
import orjson
from aiohttp import ClientTimeout, hdrs

from webhook.errors import ApiError, BadInput
from webhook.feeds.access import Access
from webhook.text import quoted

Object = dict[str, Any]
REQUEST_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0
"""What the server waits for a connection: soon it tries another."""
_ALIVE: Final = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
"""Socket options, in seconds, seconds, probes and milliseconds. With them the kernel closes a connection after ten seconds
without the other side, even if its node is lost or a NAT has forgotten it. Linux has all of them; missing ones are left out."""
_MAX_LINE = 16 << 20
"""Maximum size of one watch event in bytes: ten times the largest object in etcd."""
_CLOSE_SECONDS: Final = 1.0
"""Time for the other side of a WebSocket to agree to its end."""
_EXEC_PROTOCOL: Final = "v5.channel.k8s.io"
"""The first byte of a message is its channel. With this version the API server talks to the kubelet as it does for kubectl."""
_STDOUT: Final = b"\x01"
_STATUS: Final = b"\x03"
_HEADERS = {hdrs.ACCEPT: "application/json", hdrs.ACCEPT_ENCODING: "identity", hdrs.USER_AGENT: "gpu-admission"}
"""`identity`: within a cluster, compressing and decompressing a list takes longer than sending it."""


class Api:
    """A client with a pool of connections, to be used as an async context.

    Every failure raises ApiError, with status 0 if there was no answer. Entering the context raises BadInput if `access` does.
    """

    def __init__(self, access: Callable[[], Awaitable[Access]], connect: float = REQUEST_SECONDS) -> None:
        """`access` is called again when its result gets old, and after a 401.

        `connect`: seconds for a connection and its TLS. Unless given, as long as a request may take: for a person who asks, a
        slow API server is better than none (kubectl dials for 30 seconds, client-go/transport/cache.go).
        """
        self._read_access = access
        self._connect = connect
        self._access: Access | None = None
        self._read_at = 0.0

    async def __aenter__(self) -> Self:
        # Of a request that is given up, Python before 3.12.8 waits until the server agrees to the end: with this it is aborted.
        old = sys.version_info < (3, 12, 8)
        self._connector = aiohttp.TCPConnector(limit=0, socket_factory=_socket, enable_cleanup_closed=old)
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            headers=_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        try:
            await self._current()
        except BadInput:
            await self._session.close()
            raise
        return self

    async def __aexit__(self, *unused: object) -> None:
        # Aborted, not closed: TLS would wait for a server that may be gone, and a loop that ends before leaves sockets open.
        await self._connector.close(abort_ssl=True)
        await self._session.close()
        await asyncio.sleep(0)  # a connection that is aborted ends in the next turn of the loop

    async def get(self, path: str, **query: str) -> Object:
        return await self._request("GET", path, None, query)

    async def pages(self, path: str, limit: int, **query: str) -> AsyncIterator[Object]:
        """A list in pages of so many objects, so that a large one delays nothing else."""
        query["limit"] = str(limit)
        while True:
            page = await self.get(path, **query)
            yield page
            if not (more := (page.get("metadata") or {}).get("continue")):
                return
            query["continue"] = more

    async def post(self, path: str, obj: Object) -> Object:
        return await self._request("POST", path, obj, {})

    async def put(self, path: str, obj: Object) -> Object:
        """Replace an object. Status 409 if it has changed since `obj` was read, by the resourceVersion in `obj`."""
        return await self._request("PUT", path, obj, {})

    async def patch(self, path: str, changes: Object) -> Object:
        """Apply a merge patch. With a resourceVersion in `changes`: status 409 if the object has another one."""
        return await self._request("PATCH", path, changes, {})

    async def _request(self, method: str, path: str, obj: Object | None, query: dict[str, str]) -> Object:
        limits = ClientTimeout(total=REQUEST_SECONDS, sock_connect=self._connect)
        async with self._open(method, path, obj, query, limits) as response:
            answer = orjson.loads(await response.read())
        if not isinstance(answer, dict):
            raise ApiError(0, f"{method} {path}: wanted a JSON object, saw {type(answer).__name__}")
        return answer

    async def lines(self, path: str, word: str, seconds: float = REQUEST_SECONDS) -> list[str]:
        """The lines of a text, such as metrics, that contain `word`. The others are not kept."""
        limits = ClientTimeout(total=seconds, sock_connect=self._connect)
        async with self._open("GET", path, None, {}, limits) as response:
            matching, needle = [], word.encode()
            async for batch in _lines(response.content):
                matching += [line.decode(errors="replace") for line in batch if needle in line]
        return matching

    @asynccontextmanager
    async def watch(
        self, path: str, seconds: float, query: dict[str, str]
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """The events of a watch as JSON lines, in batches as they arrive. It is aborted after `seconds` without data."""
        limits = ClientTimeout(total=None, sock_connect=self._connect, sock_read=seconds)
        async with self._open("GET", path, None, query, limits) as response:
            yield _lines(response.content)

    async def execute(self, path: str, container: str, command: Sequence[str], size: int) -> bytes:
        """The output of a command in a container, by the `exec` of a pod over a WebSocket.

        Raises ApiError if the command fails or writes more than `size` bytes. It has no limit in time.
        """
        # By GET, the right to `create` pods/exec is needed too since Kubernetes 1.35.
        query = [("container", container), ("stdout", "true"), *(("command", word) for word in command)]
        output, status = bytearray(), b""
        with _as_api_error(f"GET {path}"):
            access = await self._current()
            connection = await self._session.ws_connect(
                access.base + path,
                params=query,
                headers=access.headers,
                protocols=(_EXEC_PROTOCOL,),
                max_msg_size=size,
                ssl=access.tls if access.tls is not None else True,
                server_hostname=access.server_name,
            )
            try:
                async for part in connection:
                    if part.type is aiohttp.WSMsgType.BINARY and part.data[:1] == _STDOUT:
                        output += part.data[1:]
                    elif part.type is aiohttp.WSMsgType.BINARY and part.data[:1] == _STATUS:
                        status = part.data[1:]
                    if part.type is aiohttp.WSMsgType.ERROR or len(output) > size:
                        raise ApiError(0, f"GET {path}: the command wrote more than {size} bytes")
            finally:
                with suppress(TimeoutError):  # else a command that never stops writing is read for ever
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await connection.close()
        if why := _failure(status):
            raise ApiError(0, f"GET {path}: {why}; it wrote {quoted(output.decode(errors='replace'))}")
        return bytes(output)

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, obj: Object | None, query: dict[str, str], limits: ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        with _as_api_error(f"{method} {path}"):
            access = await self._current()
            if access.timeout and limits.total:
                limits = ClientTimeout(total=access.timeout, sock_connect=self._connect)
            async with self._session.request(
                method,
                access.base + path,
                params=query,
                data=orjson.dumps(obj) if obj is not None else None,
                headers=[(hdrs.CONTENT_TYPE, content), *access.headers],
                timeout=limits,
                ssl=access.tls if access.tls is not None else True,
                server_hostname=access.server_name,
                allow_redirects=False,
            ) as response:
                if response.status == 401:
                    self._access = None
                if response.status >= 300:
                    reason = await _reason(response)
                    raise ApiError(response.status, f"{method} {path}: {response.status}: {quoted(reason)}", reason)
                try:
                    yield response
                finally:
                    _cut(response)

    async def _current(self) -> Access:
        now = time.monotonic()
        if self._access is None or now - self._read_at > self._access.lasts:
            self._access, self._read_at = await self._read_access(), now
        return self._access


def _cut(response: aiohttp.ClientResponse) -> None:
    """End a watch at once. Else TLS waits for the other side to agree, and a loop that ends before leaves the socket open."""
    if response.connection is not None and response.connection.transport is not None:  # it has not been read to its end
        response.connection.transport.abort()


@contextmanager
def _as_api_error(request: str) -> Iterator[None]:
    try:
        yield
    except aiohttp.WSServerHandshakeError as error:
        raise ApiError(error.status, f"{request}: answered {error.status}; wanted a WebSocket") from error
    except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError, BadInput) as error:
        text = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else "")
        raise ApiError(0, f"{request}: {type(error).__name__}: {text}") from error


def _failure(status: bytes) -> str:
    """Why a command failed, by the Status object at its end. Empty: it succeeded."""
    try:
        found = orjson.loads(status)
        return "" if found["status"] == "Success" else quoted(found["message"])
    except (ValueError, LookupError, TypeError):
        return "the connection ended without a status of the command"


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that closes when the other side does not answer any more."""
    family, kind, protocol, *_ = address
    connection = socket.socket(family, kind, protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Whole lines, in batches. aiohttp's own method fails for a line that is longer than its buffer.

    Reviews are answered between two chunks, since each is waited for. An API server sends a pod in two or three of 4 KiB.
    """
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE:
            raise ApiError(0, f"watch: an event of more than {_MAX_LINE} bytes")
        if lines:
            yield lines


async def message(response: aiohttp.ClientResponse) -> str:
    """The reason in an error response, quoted."""
    return quoted(await _reason(response))


async def _reason(response: aiohttp.ClientResponse) -> str:
    """The message of a Status, or else the text."""
    body = await response.content.read(4096)
    try:
        return str(orjson.loads(body)["message"])
    except (ValueError, LookupError, TypeError):
        return body.decode(errors="replace")
