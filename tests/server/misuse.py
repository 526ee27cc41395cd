"""A stranger who says anything on a few connections, and an API server whose reviews are answered beside it."""

import asyncio
from contextlib import suppress

from tests.edge import Running, Stream, asked, dial, streams

STRANGER = "127.0.7.2"
COUNT = 8
"""Connections for each misuse."""
MOST = 4096
"""Bytes of all that a stranger gets for it, but for an answer of /metrics."""
BIG = b"x" * (2 << 20)


async def heard(stream: Stream, *sent: bytes, end: bytes = b"the end of the connection") -> bytes:
    """Say this piece by piece. Returns what the server says until it has said `end`, or closes the connection."""
    reader, writer = stream
    found = b""
    with suppress(OSError):
        for piece in sent:
            if not writer.transport.is_closing():
                writer.write(piece)
            await asyncio.sleep(0)
        while end not in found and (part := await reader.read(1 << 16)):
            found += part
    return found


async def beside(server: Running, misuses: list[asyncio.Task[bytes]]) -> list[bytes]:
    """The answers to strangers. Meanwhile reviews are answered, on a connection kept open and on new ones."""
    async with streams() as opened:
        opened.append(kept := await dial(server))
        while not all(misuse.done() for misuse in misuses):
            opened.append(fresh := await dial(server))
            assert [await asked(kept), await asked(fresh)] == [200, 200]
            fresh[1].close()
            await asyncio.sleep(0.1)
    return [misuse.result() for misuse in misuses]
