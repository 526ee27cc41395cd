"""A TCP proxy that can be told to misbehave, or to share connections out: `python -m tests.e2e.proxy PORT TARGET…`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Self


class Proxy:
    """Forwards bytes to 127.0.0.1:`target`. `cut` resets every connection; `silence` passes nothing on, nor closes."""

    def __init__(self, *targets: int, port: int = 0) -> None:
        """Connections go to `targets` by turns."""
        self._wanted_port = port
        self._targets = targets
        self._turn = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._wanted_port)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *unused: object) -> None:
        self._server.close()
        self._flows.set()
        self.cut()
        await asyncio.sleep(0)

    def cut(self) -> None:
        """Reset all connections, as a load balancer does that forgets them."""
        for writer in list(self._open):
            writer.transport.abort()

    def silence(self) -> None:
        """Half-open: whatever is sent from now on is kept back, on old and new connections."""
        self._flows.clear()

    def resume(self) -> None:
        """New connections work again; what was silent is cut."""
        self.cut()
        self._flows.set()

    def forget(self) -> None:
        """The connections of now stay open and silent for ever; new ones work."""
        self._flows = asyncio.Event()
        self._flows.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self._targets[self._turn % len(self._targets)]
        self._turn += 1
        flows = self._flows
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        await asyncio.gather(self._pump(reader, far_writer, flows), self._pump(far_reader, writer, flows))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await flows.wait()
                writer.write(data)
                await writer.drain()
        self._open.discard(writer)
        writer.close()


async def _balance(port: int, *targets: int) -> None:
    async with Proxy(*targets, port=port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_balance(*map(int, sys.argv[1:])))
