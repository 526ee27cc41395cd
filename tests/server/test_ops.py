"""The port for probes and metrics."""

import asyncio
import itertools
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from tests.edge import API_SERVER, streams
from webhook.server import http
from webhook.server.listener import Listener
from webhook.server.load import Turns
from webhook.server.settings import ServeSettings
from webhook.telemetry.metrics import Metrics


@asynccontextmanager
async def ops_running(missing: list[str], host: str = "127.0.0.1", **options: Any) -> AsyncIterator[str]:
    metrics = Metrics()
    listener = Listener(http.ops(metrics, lambda: missing), metrics, Turns(), **options)
    port = await listener.start(host, 0)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await listener.stop(1)


async def test_a_server_that_is_not_ready_is_alive(client: aiohttp.ClientSession) -> None:
    missing = ["no policy is loaded", "pods were not listed yet"]
    async with ops_running(missing) as url:
        async with client.get(url + "/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
        async with client.get(url + "/readyz") as answer:
            assert answer.status == 503
            assert await answer.text() == "not ready: no policy is loaded\nnot ready: pods were not listed yet\n"
        missing.clear()
        async with client.get(url + "/readyz?verbose") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")


def loopbacks() -> Iterator[str]:
    """Those of this machine: some containers have none of IPv6."""
    yield "127.0.0.1"
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        yield "[::1]"


async def test_without_an_address_it_listens_on_ipv4_and_ipv6(client: aiohttp.ClientSession) -> None:
    """Pods of clusters with one family have addresses of that family only."""
    async with ops_running([], ServeSettings().host) as url:
        for address in loopbacks():
            async with client.get(url.replace("127.0.0.1", address) + "/healthz") as answer:
                assert answer.status == 200, address


async def test_without_ipv6_in_the_kernel_it_listens_on_ipv4(
    client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = socket.create_server

    def create_server(*given: Any, family: int, **more: Any) -> socket.socket:
        assert family == socket.AF_INET
        return made(*given, family=family, **more)

    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    monkeypatch.setattr(socket, "create_server", create_server)
    async with ops_running([], ServeSettings().host) as url, client.get(url + "/healthz") as answer:
        assert answer.status == 200


async def test_as_many_files_may_be_open_as_the_system_allows() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    async with ops_running([]):
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard


async def test_metrics_have_the_format_of_prometheus(client: aiohttp.ClientSession) -> None:
    async with ops_running([]) as url, client.get(url + "/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        assert "# TYPE gpu_admission_review_seconds histogram" in await answer.text()


async def test_metrics_are_rendered_a_few_times_a_second(
    client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, renderings = [7.0], itertools.count(1)
    monkeypatch.setattr(http, "monotonic", lambda: now[0])
    monkeypatch.setattr(Metrics, "text", lambda _: b"%d" % next(renderings))
    async with ops_running([]) as url:

        async def metrics() -> str:
            async with client.get(url + "/metrics") as answer:
                return await answer.text()

        for second in (1, 2):
            now[0] += 1
            last = [await metrics() for _ in range(http.MAX_RENDERINGS + 2)][-1]
            assert last == str(second * http.MAX_RENDERINGS)


async def test_probes_are_answered_however_many_connections_are_idle() -> None:
    async with ops_running([], limit=8) as url, streams() as opened:
        for number in range(40):
            address = f"127.0.7.{number}" if number < 32 else API_SERVER
            opened.append(
                stream := await asyncio.open_connection(
                    "127.0.0.1", int(url.rpartition(":")[2]), local_addr=(address, 0)
                )
            )
            stream[1].write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await stream[0].readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        pytest.param("GET", "/", 404, 'saw path "/", wanted /healthz, /readyz or /metrics\n', id="another path"),
        pytest.param("POST", "/metrics", 405, 'saw method "POST", wanted GET\n', id="another method"),
        pytest.param("POST", "/mutate", 405, 'saw method "POST", wanted GET\n', id="a review over plain HTTP"),
    ],
)
async def test_the_ops_port_serves_nothing_else(
    client: aiohttp.ClientSession, method: str, path: str, status: int, message: str
) -> None:
    async with ops_running([]) as url, client.request(method, url + path) as answer:
        assert (answer.status, await answer.text()) == (status, message)
        assert answer.headers.get("Allow") == ("GET" if status == 405 else None)
