"""Scraping exporters over real HTTP. Each has a loopback address in place of the address of a pod."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from tests.feeds.exporters import DATA, Handler, exporter, exporters_of, served
from tests.waiting import time_passes, until
from webhook.feeds import dcgm
from webhook.feeds.dcgm import DcgmSource
from webhook.feeds.exporters import Exporter
from webhook.feeds.gpu_source import AT_ONCE, Round, SourceFailed, Wiring, http_session
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import Utilisation

IDLE = (DATA / "dcgm-8-idle.txt").read_text()


def page(text: str, **more: object) -> Handler:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(text=text, **more)  # type: ignore[arg-type]

    return handler


async def endless(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    try:
        while True:
            await response.write(b"# nothing but comments\n" * 10_000)
    except ConnectionError:
        return response


async def silent(request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


BOMB = gzip.compress(b"#" * (8 << 20), 1)


async def zipped(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip"})


async def elsewhere(request: web.BaseRequest) -> web.StreamResponse:
    raise web.HTTPFound("/good")


class Counting(DcgmSource):
    done = 0
    """Pages that were read to their end."""

    async def _scrape(self, exporter: Exporter, into: Round) -> None:
        await super()._scrape(exporter, into)
        self.done += 1


@asynccontextmanager
async def exporters(*handlers: Handler, limit: str = "5s") -> AsyncIterator[Counting]:
    """One exporter per handler, on node-1 at 127.0.0.1, on node-2 at 127.0.0.2, …, all with the same port."""
    pods, port = [], 0
    async with AsyncExitStack() as stack:
        for number, handler in enumerate(handlers, 1):
            port = await stack.enter_async_context(served(handler, f"127.0.0.{number}", port))
            pods.append(exporter(f"node-{number}", f"127.0.0.{number}"))
        settings = GpuMetricsSettings.model_validate(
            {"source": "dcgm", "pods": {"port": port or 9400}, "timeout": limit}
        )
        http = await stack.enter_async_context(http_session())
        yield Counting(Wiring(settings, http, exporters_of(settings, *pods), None))


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        pytest.param(page("gone", status=503), 'answered 503 "gone"; wanted 200', id="an error"),
        pytest.param(page("x\n\x1b[2J" * 400, status=500), "\\\\n\\\\x1b[2J", id="an error with terminal codes"),
        pytest.param(elsewhere, "answered 302", id="a redirect"),
        pytest.param(endless, f"more than {dcgm.MAX_BYTES} bytes", id="a page without an end"),
        pytest.param(zipped, "answered compressed though asked not to", id="8 MiB compressed to 40 KiB"),
        pytest.param(silent, "TimeoutError", id="no answer"),
    ],
)  # fmt: skip
async def test_an_exporter_that_misbehaves_fails_and_the_others_count(handler: Handler, says: str) -> None:
    async with exporters(handler, page(IDLE), limit="120s") as source:
        into = Utilisation(source.wiring.settings)
        poll = asyncio.create_task(source.poll(into))
        await until(lambda: source.done == 1)
        if handler is silent:
            time_passes(120)
        errors = await poll
        into.commit(0.0)
        assert errors.keys() == {"node-1"}
        assert into.node("node-1").measured == 0
        assert into.node("node-2").idle == 8, "the node of the pod, and not the one in the page"
    async with exporters(handler, limit="100ms" if handler is silent else "120s") as source:
        with pytest.raises(SourceFailed) as error:
            await source.poll(Utilisation(source.wiring.settings))
    assert says.replace("\\\\", "\\") in str(error.value)


async def test_no_exporter_is_an_error_with_the_namespace_and_the_labels() -> None:
    async with exporters() as source:
        with pytest.raises(
            SourceFailed, match=r"nvidia-dcgm-exporter.* in namespace gpu-operator; wanted DCGM exporters"
        ):
            await source.poll(Utilisation(source.wiring.settings))


async def test_the_number_of_exporters_scraped_at_once_is_bounded() -> None:
    current, highest, full = 0, 0, asyncio.Event()

    async def counted(request: web.BaseRequest) -> web.Response:
        nonlocal current, highest
        current += 1
        highest = max(highest, current)
        if current == AT_ONCE:
            full.set()
        await full.wait()
        await asyncio.sleep(0.02)  # for one more, if there were room
        current -= 1
        return web.Response(text=IDLE)

    async with exporters(*[counted] * 40) as source:
        into = Utilisation(source.wiring.settings)
        await source.poll(into)
    assert into.gpus == 320
    assert highest == AT_ONCE


async def test_exporters_that_use_up_the_time_fail_and_the_others_count() -> None:
    async with exporters(*[silent] * 10, *[page(IDLE)] * 20, limit="300s") as source:
        settings = source.wiring.settings.model_copy(update={"stale_after": 360.0})
        source.wiring = source.wiring._replace(settings=settings)
        into = Utilisation(settings)
        poll = asyncio.create_task(source.poll(into))
        await until(lambda: source.done == 20)
        time_passes(120)
        assert len(await poll) == 10


async def test_the_session_uses_no_proxy_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with exporters(page(IDLE)) as source:
        await source.poll(Utilisation(source.wiring.settings))
        assert isinstance(source.wiring.http, aiohttp.ClientSession)
