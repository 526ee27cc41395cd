"""A listening socket for an HTTP handler, and its connections. At their bound, the one that has been without a request for
longest is closed. A gate before aiohttp's protocol lets in one request at a time and bounds its work."""

import asyncio
import re
import resource
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

from webhook.server.load import MAX_BYTES, MAX_UNREAD, Bounded, Held, Turns
from webhook.telemetry.metrics import Metrics

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

KEEPALIVE_SECONDS: Final = 120.0
"""Time without a whole request until a connection is closed: longer than the 90 s of Go's client, which must close first. A POST
that meets a closing connection is not repeated, and the creation of the pod fails with EOF."""
HANDSHAKE_SECONDS: Final = 5.0
"""Time for the TLS handshake, and before it for its first byte. asyncio would wait a minute."""
MAX_CONNECTIONS: Final = 1024
"""An API server keeps 25 idle connections and adds one for each call in progress, some hundreds in a burst."""
CLOSE_SECONDS: Final = 0.5
"""At shutdown, the time for clients to close their side of TLS. Then the connections are cut."""
ACCEPTS, BACKLOG = 64, 1024
"""Connections accepted in one turn of the event loop, and queued by the kernel until then."""
RECEIVE_BYTES: Final = 16 << 10
"""The kernel's buffer, which it doubles. What is in it is decrypted at once: 2 ms if each record has one byte."""
MAX_HEAD: Final = 16 << 10
"""Bytes of the first line and the headers of a request. An API server sends half a kilobyte."""
FREE_FRAMES: Final = 64 << 10
"""Bytes that a request may take on the wire beside twice its own: what the kernel and an incomplete record hold, and frames. A
record of one byte takes 23, and as long as one of a KiB."""
LINGER_SECONDS: Final = 1.0
"""Time that a connection stays open after a refusal, so that the client reads the answer before the connection is reset."""
SEND_SECONDS: Final = 5.0
"""Maximum time for a client to read an answer."""
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n", re.IGNORECASE)


class Listener:
    """Accepts connections from `start` to `stop` and serves their requests by `handle`."""

    def __init__(
        self,
        handle: Handle,
        metrics: Metrics,
        turns: Turns,
        tls: ssl.SSLContext | None = None,
        *,
        limit: int = MAX_CONNECTIONS,
        keepalive: float = KEEPALIVE_SECONDS,
        held: Bounded | None = None,
        authenticated: bool = False,
    ) -> None:
        """`held` counts large answers. `authenticated`: handshakes demand a client certificate. Strangers end there, and what
        comes after has no gate."""
        self._handle, self.metrics, self._turns, self._tls = handle, metrics, turns, tls
        self.connections, self.held, self._authenticated = Bounded(limit), held or Bounded(MAX_BYTES), authenticated
        self.open: set[Held] = set()
        self._options: dict[str, Any] = {
            "keepalive_timeout": keepalive,
            "max_line_size": 2048,
            "max_field_size": 2048,
            "max_headers": 32,
            "read_bufsize": MAX_UNREAD // 2,
            "auto_decompress": False,
            "lingering_time": 0.0,
            "access_log": None,
        }
        self._socket: socket.socket | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen on an IPv4 or IPv6 address. Returns the port, which the kernel chooses for port 0. Raises OSError."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the usual soft limit is 1,024 open files
        self._server = web.Server(self._handle)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        dual_stack = family == socket.AF_INET6  # the address `::` accepts IPv4 too
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=dual_stack)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)  # accepted sockets inherit it
        asyncio.get_running_loop().add_reader(self._socket, self._accept)
        return int(self._socket.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Stop accepting, close idle connections, and give requests in progress `grace` seconds."""
        if self._socket is None:
            return
        self._accept()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        for _ in range(3):
            await asyncio.sleep(0)  # lets the handling of requests that have arrived begin
        self._server.pre_shutdown()
        await self._server.shutdown(grace)
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, lambda: [connection.cut() for connection in [*self.open]])
        while self.open:  # noqa: ASYNC110  only now, and for half a second
            await asyncio.sleep(0.01)

    def _accept(self) -> None:
        """Accept connections. `loop.create_server` would report one only after its handshake, the most expensive part."""
        for _ in range(ACCEPTS):
            if self._socket is None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # out of files or memory: close one connection, and try again in the next turn
                self.metrics.cut.inc(self.connections.cut())
                return
            accepted.setblocking(False)
            connection = Held(f"{address[0]} silent" if self._tls else str(address[0]))
            task = asyncio.get_running_loop().create_task(self._serve(accepted, connection))
            connection.cut = task.cancel
            self.open.add(connection)
            task.add_done_callback(partial(self._served, accepted, connection))
            self.metrics.cut.inc(self.connections.add(connection))

    async def _serve(self, accepted: socket.socket, connection: Held) -> bool:
        """Whether the handshake ended well."""
        loop, seconds = asyncio.get_running_loop(), HANDSHAKE_SECONDS if self._tls else None
        with suppress(OSError):  # the handshake broke off, took too long, or showed no accepted certificate
            if self._tls is not None:
                await _first_byte(accepted)
                self.connections.remove(connection)
                # Those who said nothing are cheap, and count by themselves.
                connection.peer = connection.peer.removesuffix(" silent")
                self.metrics.cut.inc(self.connections.add(connection))
                await self._turns.wait(f"{connection.peer} handshakes", 1)
            protocol = Handler if self._authenticated else Gate
            handler = protocol(self, connection, self._server, loop=loop, **self._options)
            await loop.connect_accepted_socket(
                lambda: handler, accepted, ssl=self._tls, ssl_handshake_timeout=seconds, ssl_shutdown_timeout=seconds
            )
            if self._authenticated:
                self.connections.used(connection)
            return True
        return False

    def lost(self, connection: Held) -> None:
        self.connections.remove(connection)
        self.open.discard(connection)

    def _served(self, accepted: socket.socket, connection: Held, task: asyncio.Task[bool]) -> None:
        if task.cancelled() or not task.result():
            self.lost(connection)
            accepted.close()


async def _first_byte(accepted: socket.socket) -> None:
    """Until then a connection costs almost nothing. Raises TimeoutError."""
    readable, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(accepted, readable.set)
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            await readable.wait()
    finally:
        loop.remove_reader(accepted)


class Handler(web.RequestHandler):
    """The protocol of one connection."""

    def __init__(self, listener: Listener, connection: Held, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.listener, self.connection = listener, connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        made = cast(asyncio.Transport, transport)
        made.set_write_buffer_limits(high=MAX_UNREAD)
        self.connection.cut = made.abort

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.listener.lost(self.connection)

    def handle_error(self, request: web.BaseRequest, *args: Any, **details: Any) -> web.StreamResponse:
        error = details.get("exc", args[1] if len(args) > 1 else None)
        if not isinstance(error, HttpProcessingError):
            return super().handle_error(request, *args, **details)
        self.listener.metrics.refused.labels("400").inc()  # and not logged: it could fill the log
        answer = web.Response(status=400, text="saw something else, wanted HTTP/1.1\n")
        answer.force_close()
        return answer

    async def finish_response(self, request: web.BaseRequest, resp: web.StreamResponse, start: Any) -> Any:
        """Send an answer, for a bounded time."""
        transport, size = self.transport, resp.content_length or 0
        if transport is None:
            raise ConnectionResetError("the client went away")
        held = Held(self.connection.peer, transport.abort)
        if size > MAX_UNREAD:
            self.listener.held.add(held, size)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return await super().finish_response(request, resp, start)
        except TimeoutError:
            transport.abort()
            raise ConnectionResetError("the client did not read") from None
        finally:
            self.listener.held.remove(held)
            if resp.status >= 400 and not resp.keep_alive and not transport.is_closing():
                transport.pause_reading()
                await asyncio.sleep(LINGER_SECONDS)
                transport.abort()  # close() would read, in TLS, everything that the client still sends


class Gate(Handler):
    """Bounds what a stranger can do with one connection. A body without its length is not parsed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.head = bytearray()
        self.expected: int | None = None
        """Bytes of the body that are still to come; None while the head is not complete."""
        self.without_length = False
        self.received, self.before = 0, 0
        """Bytes of this request; all bytes on the wire before it."""

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        frames = self._on_the_wire() - self.before - 2 * self.received
        if frames > FREE_FRAMES or len(self.head) > MAX_HEAD:
            self.connection.cut()
        elif not data:  # aiohttp calls itself to parse what it has
            super().data_received(data)
        elif self.expected is not None:
            self._of_body(data)
        else:
            searched = max(0, len(self.head) - 3)
            self.head += data
            if (end := self.head.find(b"\r\n\r\n", searched) + 4) > 3:
                head, rest = bytes(self.head[:end]), bytes(self.head[end:])
                length = None if b"\r\ntransfer-encoding:" in head.lower() else _LENGTH.search(head)
                self.expected, self.without_length, self.head = int(length[1]) if length else 0, not length, bytearray()
                self.listener.connections.unused(self.connection)  # since now
                super().data_received(head)
                self._of_body(rest)

    def _of_body(self, data: bytes) -> None:
        if self.expected is not None and not self.without_length:
            self.expected -= len(data)
        if not self.expected:
            self.listener.connections.used(self.connection)
        elif self.expected < 0:  # a second request: no API server sends one before the first is answered
            self.connection.cut()
            return
        if data and not self.without_length:
            super().data_received(data)

    async def finish_response(self, request: web.BaseRequest, resp: web.StreamResponse, start: Any) -> Any:
        """The answer is decided, and the next request may come."""
        self.expected, self.without_length = None, False
        self.received, self.before = 0, self._on_the_wire()
        if self.connection.size:
            self.listener.connections.unused(self.connection)
        return await super().finish_response(request, resp, start)

    def _on_the_wire(self) -> int:
        """Bytes that the kernel has received on this connection: `tcpi_bytes_received` of linux/tcp.h."""
        found = self.transport.get_extra_info("socket") if self.transport else None
        info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136) if found else b""
        return int(struct.unpack_from("Q", info, 128)[0]) if len(info) == 136 else 0
