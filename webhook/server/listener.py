"""A listening socket around an aiohttp handler, with every limit that a stranger on the network can run into."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from webhook.server.connections import Connection, Connections
from webhook.server.handshakes import Handshakes, Rate
from webhook.server.protocol import MOST_UNREAD, Handle, Handler, Server, worth_a_line
from webhook.server.sockets import allow_files, listening

KEEPALIVE_SECONDS: Final = 120.0
"""Above the 90 s after which Go's client drops an idle connection: whoever closes first must not be us, since a POST
that meets a closing connection is not repeated, and the creation of the pod fails with EOF."""
HANDSHAKE_SECONDS: Final = 5.0
"""For the TLS handshake; asyncio would wait a minute for a socket that says nothing."""
SILENT_SECONDS: Final = 10.0
"""From the connection to the first review. An API server dials because it has a call to make; when another connection is free
sooner it keeps the new one unused, and is not hurt when that closes, unless it asks at the very same millisecond."""
MOST_CONNECTIONS: Final = 1024
"""It bounds memory: see MOST_UNREAD. An API server keeps 25 idle connections and adds one for each call under way, some
hundreds in a burst."""
CLOSE_SECONDS: Final = 0.5
"""At the end, for clients to say goodbye in TLS; then their connections are cut."""
ACCEPTS: Final = 64
"""New connections in one turn of the loop: those who have one do not wait. Handshakes begin later: see `Handshakes`."""


class Listener:
    """`start`, `stop`; in between every connection is served by `handle`."""

    def __init__(
        self,
        handle: Handle,
        tls: ssl.SSLContext | None = None,
        *,
        most: int = MOST_CONNECTIONS,
        keepalive: float = KEEPALIVE_SECONDS,
        silent: float = SILENT_SECONDS,
        known: bool = False,
        bad_request: Callable[[], None] = lambda: None,
        cut: Callable[[str], None] = lambda stage: None,
    ) -> None:
        """`known`: whoever gets through the handshake has shown a client certificate, and may be silent.

        `bad_request` is called for each request that is not HTTP, `cut` for each connection that had to go, with its stage."""
        self._tls = tls
        self._silent = silent
        self._cut = cut
        self._socket: socket.socket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._rate = Rate()
        self._waiting = Handshakes(self._begin, self._rate)
        self._handshakes: set[asyncio.Task[None]] = set()
        self._connections = Connections(most)
        logger = logging.Logger("http", logging.DEBUG)  # not a registered one: its filter ends with this listener
        logger.parent = logging.getLogger()
        logger.addFilter(lambda record: worth_a_line(record, bad_request))
        # Not an AppRunner: application, router and signals cost a tenth of a request and give nothing here.
        self._server = Server(handle, self._connections, self._rate, known, keepalive_timeout=keepalive, logger=logger)

    async def start(self, host: str, port: int) -> int:
        """Listen. The port that it became, for port 0. Raises OSError where the address cannot be had."""
        allow_files()
        self._socket = await listening(host, port, MOST_UNREAD)
        asyncio.get_running_loop().add_reader(self._socket, self._accept)
        self._sweep_later()
        found: int = self._socket.getsockname()[1]
        return found

    async def stop(self, grace: float) -> None:
        """Accept nothing more, close what is idle, give requests that are under way `grace` seconds."""
        if self._socket is None:
            return
        self._accept()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        if self._sweep is not None:
            self._sweep.cancel()
        await asyncio.sleep(0)  # requests that have come already begin to be handled
        self._server.pre_shutdown()
        await self._server.shutdown(grace)
        for connection in self._waiting.waiting():
            self._connections.remove(connection)
            connection.cut()
        for handshake in self._handshakes:
            handshake.cancel()
        await self._server.closed(CLOSE_SECONDS)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def _accept(self) -> None:
        """Not `loop.create_server`: that shows a connection only after its handshake, when it has cost most already."""
        now = asyncio.get_running_loop().time()
        for _ in range(ACCEPTS):
            if self._socket is None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:  # no file or no memory is left: somebody goes, and the next turn tries again
                self._end(self._connections.spare())
                return
            peer = str(address[0])
            accepted.setblocking(False)
            connection = Connection(peer)
            connection.cut = partial(self._waiting.end, connection)
            self._waiting.add(accepted, connection)
            self._end(self._connections.add(connection, now))

    def _begin(self, accepted: socket.socket, connection: Connection) -> None:
        handler = self._server()
        handler.connection = connection
        task = asyncio.get_running_loop().create_task(self._serve(accepted, handler))
        connection.cut = task.cancel
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)
        task.add_done_callback(lambda _: None if handler.made else self._never_made(accepted, connection))

    async def _serve(self, accepted: socket.socket, handler: Handler) -> None:
        seconds = HANDSHAKE_SECONDS if self._tls else None
        with suppress(OSError):  # it broke off, took too long, or showed no certificate that we take
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: handler,
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )

    def _never_made(self, accepted: socket.socket, connection: Connection) -> None:
        self._connections.remove(connection)
        accepted.close()

    def _end(self, connection: Connection | None) -> None:
        if connection is not None:
            self._cut(connection.stage.value)
            connection.cut()

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in self._connections.silent_since(loop.time() - self._silent):
            self._end(connection)
        self._sweep = loop.call_later(min(1.0, self._silent), self._sweep_later)
