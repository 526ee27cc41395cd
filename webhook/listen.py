"""A listening socket around an aiohttp handler, with every limit that a stranger on the network can run into."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

KEEPALIVE_SECONDS: Final = 120.0
"""Above the 90 s after which Go's client drops an idle connection: whoever closes first must not be us, since a POST
that meets a closing connection is not repeated, and the creation of the pod fails with EOF."""
HANDSHAKE_SECONDS: Final = 5.0
"""For the TLS handshake; asyncio would wait a minute for a socket that says nothing."""
MOST_CONNECTIONS: Final = 1024
"""It bounds memory (about 80 kB a connection) and the queue: a connection has one request under way, so at 0.3 ms each
the last of them waits 0.3 s. An API server keeps 25 idle connections and adds one for each further request."""
LINGER_SECONDS: Final = 1.0
"""How long a refused body is still read, so that the client sees the answer and not a reset connection."""
CLOSE_SECONDS: Final = 0.5
"""At the end, for clients to say goodbye in TLS; then their connections are cut."""
BACKLOG: Final = 512


class Listener:
    """`start`, `stop`; in between every connection is served by `handle`."""

    def __init__(
        self,
        handle: Handle,
        tls: ssl.SSLContext | None = None,
        *,
        most: int = MOST_CONNECTIONS,
        keepalive: float = KEEPALIVE_SECONDS,
        bad_request: Callable[[], None] = lambda: None,
    ) -> None:
        """`bad_request` is called for each request that is not HTTP."""
        self._tls = tls
        self._listening: asyncio.Server | None = None
        logger = logging.Logger("http", logging.DEBUG)  # not a registered one: its filter ends with this listener
        logger.parent = logging.getLogger()
        logger.addFilter(lambda record: _worth_a_line(record, bad_request))
        # Not an AppRunner: application, router and signals cost a tenth of a request and give nothing here.
        self._server = _Capped(
            handle, most, keepalive_timeout=keepalive, lingering_time=LINGER_SECONDS, access_log=None, logger=logger
        )

    async def start(self, host: str, port: int) -> int:
        """Listen. The port that it became, for port 0. Raises OSError where the address cannot be had."""
        self._listening = await asyncio.get_running_loop().create_server(
            self._server,
            host,
            port,
            ssl=self._tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
            ssl_shutdown_timeout=HANDSHAKE_SECONDS if self._tls else None,
            backlog=BACKLOG,
        )
        found: int = self._listening.sockets[0].getsockname()[1]
        return found

    async def stop(self, grace: float) -> None:
        """Accept nothing more, close what is idle, give requests that are under way `grace` seconds."""
        if self._listening is not None:
            self._listening.close()
            await asyncio.sleep(0)  # requests that have come already begin to be handled
            self._server.pre_shutdown()
            await self._server.shutdown(grace)
            await self._server.closed(CLOSE_SECONDS)

    @property
    def connections(self) -> int:
        return self._server.count


class _Capped(web.Server):
    """Drops connections above `most`: the newest, since the older ones may be the API server's.

    It also knows every transport until that is really closed: aiohttp forgets it as soon as the closing begins.
    """

    def __init__(self, handle: Handle, most: int, **options: Any) -> None:
        super().__init__(handle, **options)
        self._most = most
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._all_closed = asyncio.Event()

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open[handler] = transport
        if len(self._open) > self._most:
            transport.abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)
        if not self._open:
            self._all_closed.set()

    @property
    def count(self) -> int:
        return len(self._open)

    async def closed(self, seconds: float) -> None:
        """Until every connection is closed; after `seconds` what is left is cut."""
        for wait in (seconds, 0.1):
            self._all_closed.clear()
            if self._open:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._all_closed.wait(), wait)
            for transport in self._open.values():
                transport.abort()


def _worth_a_line(record: logging.LogRecord, bad_request: Callable[[], None]) -> bool:
    """A stranger who talks no HTTP is counted, but cannot fill the log."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        bad_request()
        return False
    return True
