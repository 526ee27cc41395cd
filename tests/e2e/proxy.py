"""A TCP proxy that can be told to misbehave, or to share connections out as a Service does:
`python -m tests.e2e.proxy PORT TARGET:OPS…`, where each target is asked at its port OPS whether it is ready."""

import asyncio
import sys
from contextlib import suppress
from typing import Self

from tests.waiting import stop_accepting, until


class Proxy:
    """Forwards bytes to 127.0.0.1:`target`. `cut` resets every connection; `silence` passes nothing on, nor closes."""

    def __init__(self, *targets: int, port: int = 0) -> None:
        """Connections go to `targets` by turns."""
        self._wanted_port = port
        self.targets = targets
        self._turn = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._forgotten: list[asyncio.Event] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._wanted_port)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *unused: object) -> None:
        await stop_accepting(self._server)
        for flows in (*self._forgotten, self._flows):
            flows.set()
        await until(self._ended)

    def _ended(self) -> bool:
        """Whether no connection is left. What is left is cut: of some, the far side was not open yet when others were."""
        self.cut()
        return not self._open

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
        self._forgotten.append(self._flows)
        self._flows = asyncio.Event()
        self._flows.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self.targets[self._turn % len(self.targets)]
        self._turn += 1
        flows = self._flows
        self._open.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.transport.abort()
            self._open.discard(writer)
            return
        self._open.add(far_writer)
        await asyncio.gather(self._pump(reader, far_writer, flows), self._pump(far_reader, writer, flows))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        self._open.discard(writer)


async def _balance(port: int, *targets: str) -> None:
    """To those that are ready, or else to all of them."""
    pairs = [tuple(map(int, target.split(":"))) for target in targets]
    ready = [False] * len(pairs)
    async with Proxy(*(target for target, _ in pairs), port=port) as proxy:
        while True:
            ready = await asyncio.gather(*(_ready(ops, was) for (_, ops), was in zip(pairs, ready, strict=True)))
            found = [target for (target, _), good in zip(pairs, ready, strict=True) if good]
            proxy.targets = tuple(found or (target for target, _ in pairs))
            await asyncio.sleep(0.1)


async def _ready(ops: int, was: bool) -> bool:
    """As it was, if there is no answer in a second: the machine is busy."""
    writer = None
    try:
        async with asyncio.timeout(1):
            reader, writer = await asyncio.open_connection("127.0.0.1", ops)
            writer.write(b"GET /readyz HTTP/1.0\r\n\r\n")
            return b" 200 " in await reader.readline()
    except TimeoutError:
        return was
    except OSError:
        return False
    finally:
        if writer is not None:
            writer.close()


if __name__ == "__main__":
    asyncio.run(_balance(int(sys.argv[1]), *sys.argv[2:]))
