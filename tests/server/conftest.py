"""Fixtures for the tests of the server."""

from asyncio import AbstractEventLoop, new_event_loop
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
import uvloop

from tests.edge import Running, https, running
from webhook.server import listener


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with https() as session:
        yield session


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setattr(listener, "LINGER_SECONDS", 0.1)
    async with running() as started:
        yield started


LOOPS: dict[str, Callable[[], AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop, "asyncio": new_event_loop}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], AbstractEventLoop]]:
    """The loop that serves in production. A test that names `loop_factories` runs in those: uvloop is optional."""
    named = item.get_closest_marker("asyncio")
    return LOOPS if named is not None and named.kwargs else {"uvloop": LOOPS["uvloop"]}
