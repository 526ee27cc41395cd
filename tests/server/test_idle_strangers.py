"""Connections with one request each that then say nothing, at the bound: those that ask now are answered, on both ports."""

import asyncio
import time
from contextlib import suppress

import pytest

from tests.edge import API_SERVER, Stream, asked, dial, running, streams
from webhook.server import load
from webhook.server.http import ops
from webhook.server.listener import Listener
from webhook.server.load import Turns
from webhook.telemetry.metrics import Metrics

WHERE = [
    pytest.param(["127.0.7.2"], id="from one address"),
    pytest.param([f"127.0.7.{i}" for i in range(2, 34)], id="from 32 addresses"),
    pytest.param([API_SERVER], id="from the address of the API server"),
]


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour passes: a handshake is younger, however busy this machine is."""
    monkeypatch.setattr(load, "monotonic", lambda: time.monotonic() + 3600)


@pytest.mark.parametrize("addresses", WHERE)
async def test_new_connections_are_served_however_many_others_are_idle(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server creates 300 pods, 80 at a time; each needs a new connection."""
    async with running(limit=128) as server, streams() as opened:
        for i in range(128):
            opened.append(stranger := await dial(server, addresses[i % len(addresses)]))
            assert await asked(stranger) == 200
        later(monkeypatch)
        working = asyncio.Semaphore(80)

        async def create() -> bool:
            async with working:
                with suppress(OSError, asyncio.IncompleteReadError):
                    opened.append(fresh := await dial(server))
                    status = await asked(fresh)
                    fresh[1].close()
                    return status == 200
            return False

        assert (await asyncio.gather(*(create() for _ in range(300)))).count(False) == 0
        assert len(server.listener.open) <= 128


async def probe(port: int, address: str, opened: list[Stream]) -> bool:
    with suppress(OSError, asyncio.IncompleteReadError):
        opened.append(stream := await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)))
        stream[1].write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        return (await stream[0].readline()).startswith(b"HTTP/1.1 200")
    return False


@pytest.mark.parametrize("addresses", WHERE)
async def test_probes_are_answered_however_many_others_are_idle(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = Metrics()
    listener = Listener(ops(metrics, list), metrics, Turns(), limit=64)
    port = await listener.start("127.0.0.1", 0)
    try:
        async with streams() as opened:
            assert all([await probe(port, addresses[i % len(addresses)], opened) for i in range(64)])
            later(monkeypatch)
            asking = [probe(port, API_SERVER, opened) for _ in range(60)]
            assert (await asyncio.gather(*asking)).count(False) == 0
    finally:
        await listener.stop(1)
