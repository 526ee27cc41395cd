"""A browser for the tests of the page."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.browser import Tab, browser


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def chromium() -> AsyncIterator[Tab]:
    async with browser() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="package")
async def tab(chromium: Tab) -> AsyncIterator[Tab]:
    """An empty page. Nothing that its scripts or its content policy complain of is forgiven."""
    await chromium.open("about:blank")
    await chromium.look()
    yield chromium
    assert chromium.errors == []
