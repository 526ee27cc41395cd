"""Fixtures for the tests of the server."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

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
