"""A listening socket for an HTTP handler, and its connections. A connection accepts one request at a time, and its work is
bounded. When there are too many connections, one is closed: see `load.Bounded`."""

import asyncio
import re
import resource
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http import HttpProcessingError

from webhook.server.load import MAX_UNREAD, Bounded, Held, Turns
from webhook.telemetry.metrics import Metrics

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
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,9})[ \t]*\r\n")


class Listener:
    """Accepts connections from `start` to `stop` and serves their requests by `handle`."""

    def __init__(
        self,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        metrics: Metrics,
        turns: Turns,
        tls: Callable[[], ssl.SSLContext] | None = None,
        *,
        limit: int = MAX_CONNECTIONS,
        keepalive: float = KEEPALIVE_SECONDS,
        authenticated: bool = False,
    ) -> None:
        """`tls` gives the context of each handshake. `authenticated`: handshakes demand a client certificate. Strangers end
        there, and requests are not bounded."""
        self.metrics, self.authenticated = metrics, authenticated
        self._handle, self._turns, self._tls, self._keepalive = handle, turns, tls, keepalive
        self.open: set[Held] = set()
        """All connections. Of those that were cut, some have not ended yet."""
        self.connections = Bounded(limit)
        self._socket: socket.socket | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen on an address. `::` is all addresses, of IPv4 too. Returns the port, which the kernel chooses for port 0. Raises
        OSError."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the usual soft limit is 1,024 open files
        self.server = web.Server(self._handle)
        if host == "::" and not socket.has_dualstack_ipv6():  # a kernel without IPv6
            host = "0.0.0.0"  # noqa: S104  in a pod, a NetworkPolicy limits the peers
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        dual_stack = family == socket.AF_INET6
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=dual_stack)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)  # accepted sockets inherit it
        asyncio.get_running_loop().add_reader(self._socket, self._accept, self._socket)
        return int(self._socket.getsockname()[1])

    async def stop(self, grace: float) -> None:
        """Stop accepting, close idle connections, and give requests in progress `grace` seconds."""
        if self._socket is None:
            return
        self._accept(self._socket)
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        for _ in range(3):
            await asyncio.sleep(0)  # lets the handling of requests that have arrived begin
        self.server.pre_shutdown()
        await self.server.shutdown(grace)
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, lambda: [connection.cut() for connection in [*self.open]])
        while self.open:  # noqa: ASYNC110  only now, and for half a second
            await asyncio.sleep(0.01)

    def lost(self, held: Held) -> None:
        """The connection has ended."""
        self.connections.remove(held)
        self.open.discard(held)

    def _accept(self, listening: socket.socket) -> None:
        """Accept connections. `loop.create_server` would report one only after its handshake, the most expensive part."""
        for _ in range(ACCEPTS):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # out of files or memory: close one connection, and try again in the next turn
                self.metrics.cut.inc(self.connections.cut())
                return
            accepted.setblocking(False)
            held = Held(f"{address[0]} silent" if self._tls else str(address[0]))
            task = asyncio.get_running_loop().create_task(self._serve(accepted, held))
            held.cut = task.cancel
            self.open.add(held)
            task.add_done_callback(partial(self._served, accepted, held))
            self.metrics.cut.inc(self.connections.add(held))

    async def _serve(self, accepted: socket.socket, held: Held) -> bool:
        """Whether the handshake ended well."""
        loop, tls, seconds = asyncio.get_running_loop(), None, None
        with suppress(OSError):  # the handshake broke off, took too long, or showed no accepted certificate
            if self._tls is not None:
                await _hello(accepted)
                self.connections.remove(held)
                # Those who said nothing are cheap, and count by themselves.
                held.peer = held.peer.removesuffix(" silent")
                self.metrics.cut.inc(self.connections.add(held))
                await self._turns.wait(f"{held.peer} handshakes", 1)
                tls, seconds = self._tls(), HANDSHAKE_SECONDS
            connection = Connection(self, held, self._keepalive, accepted)
            await loop.connect_accepted_socket(
                lambda: _Reads(connection),
                accepted,
                ssl=tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
            if self.authenticated:
                self.connections.used(held)
            return True
        return False

    def _served(self, accepted: socket.socket, held: Held, task: asyncio.Task[bool]) -> None:
        if task.cancelled() or not task.result():
            self.lost(held)
            accepted.close()


async def _hello(accepted: socket.socket) -> None:
    """Wait for a first record with the whole ClientHello; until then a connection costs almost nothing. Raises OSError.

    Clients send it in one record (crypto/tls: `writeHandshakeRecord`). In records of one byte OpenSSL takes 22 ms for it.
    """
    readable, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(accepted, readable.set)
    try:
        await asyncio.wait_for(readable.wait(), HANDSHAKE_SECONDS)
    finally:
        loop.remove_reader(accepted)
    # Type, version and length of the record, then type and length of the message.
    begun = accepted.recv(9, socket.MSG_PEEK)
    whole = 4 + int.from_bytes(begun[6:])
    if len(begun) < 9 or (begun[0], begun[5]) != (22, 1) or int.from_bytes(begun[3:5]) != whole:
        raise ConnectionAbortedError("no ClientHello")


class Connection(web.RequestHandler):
    """Handles one connection, and bounds what a stranger can do with it. A body without Content-Length is not parsed."""

    def __init__(self, listener: Listener, held: Held, keepalive: float, accepted: socket.socket) -> None:
        super().__init__(
            listener.server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=keepalive,
            read_bufsize=MAX_UNREAD // 2,
            auto_decompress=False,
            lingering_time=0.0,
            access_log=cast(Any, None),
        )
        self.listener, self.held, self.accepted = listener, held, accepted
        self.head = bytearray()
        self.expected: float | None = None
        """Bytes of the body that are still to come; None while the head is not complete, infinite if nobody says how many."""
        self.received, self.before, self.wire = 0, 0, 0
        """Bytes of this request; all bytes on the wire before it, and now."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        made = cast(asyncio.Transport, transport)
        made.set_write_buffer_limits(high=MAX_UNREAD)
        self.held.cut = made.abort

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self.listener.lost(self.held)

    def reading(self) -> None:
        """Called before TLS reads the bytes that have come. They may be messages of TLS itself, which carry no data."""
        if not self.listener.authenticated:
            # Bytes that the kernel has received on this connection: `tcpi_bytes_received` of linux/tcp.h.
            info = self.accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
            self.wire = struct.unpack_from("Q", info, 128)[0] if len(info) == 136 else 0
            if self._beyond() > 2 * FREE_FRAMES:
                self.held.cut()

    def data_received(self, data: bytes) -> None:
        if not data or self.listener.authenticated:  # without data, aiohttp calls itself to parse what it has
            super().data_received(data)
            return
        self.received += len(data)
        if len(self.head) > MAX_HEAD or self._beyond() > FREE_FRAMES:
            self.held.cut()
        elif self.expected is None:
            self._of_head(data)
        elif self.expected < inf:
            self._of_body(data, self.expected - len(data))

    def _beyond(self) -> int:
        """Bytes that this request took on the wire beside twice its own."""
        return self.wire - self.before - 2 * self.received

    def _of_head(self, data: bytes) -> None:
        searched = max(0, len(self.head) - 3)
        self.head += data
        if (end := self.head.find(b"\r\n\r\n", searched) + 4) > 3:
            whole, self.head = bytes(self.head), bytearray()
            head = whole[:end]
            lower = head.lower()
            length = None if b"\r\ntransfer-encoding:" in lower else _LENGTH.search(lower)
            left = int(length[1]) - len(whole) + end if length else inf
            if 0 < left < inf:
                self.listener.connections.unused(self.held)  # since now
            self._of_body(whole if length else head, left)

    def _of_body(self, data: bytes, left: float) -> None:
        """`left`: bytes of the body that come after `data`."""
        self.expected = left
        if left in (0, inf):
            self.listener.connections.used(self.held)
        if left < 0:  # a second request: no API server sends one before the first is answered
            self.held.cut()
        else:
            super().data_received(data)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        self.listener.metrics.refused.labels("400").inc()  # and not logged: it could fill the log
        answer = web.Response(status=400, text="saw something else, wanted HTTP/1.1\n")
        answer.force_close()
        return answer

    async def finish_response(self, request: web.BaseRequest, resp: web.StreamResponse, start: Any) -> Any:
        """Send the answer; the next request may come. Until then the connection is unused, whether the answer is read or not."""
        self.expected = None
        self.received, self.before = 0, self.wire
        if self.held.size and not self.listener.authenticated:
            self.listener.connections.unused(self.held)
        try:
            return await super().finish_response(request, resp, start)
        finally:
            transport = self.transport
            if resp.status >= 400 and not resp.keep_alive and transport and not transport.is_closing():
                transport.pause_reading()
                await asyncio.sleep(LINGER_SECONDS)
                transport.abort()  # close() would read, in TLS, everything that the client still sends


class _Reads(asyncio.BufferedProtocol):
    """Between a transport and a connection: says before each read that bytes have come.

    TLS reads whenever bytes come, also messages of its own (KeyUpdate, renegotiation), and answers any number of them. Only a
    protocol with a buffer hears of these: it is asked for the buffer before each read. It must be no `asyncio.Protocol`, which a
    handler of aiohttp is: uvloop asks only those that are none.
    """

    _buffer: Final = memoryview(bytearray(MAX_UNREAD))
    """One for all connections: what is read is passed on at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def eof_received(self) -> None:
        self._connection.eof_received()

    def get_buffer(self, sizehint: int) -> memoryview:
        self._connection.reading()
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.data_received(bytes(self._buffer[:nbytes]))
