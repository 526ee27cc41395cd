"""Fixtures for the tests of the server."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.edge import https


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with https() as session:
        yield session
