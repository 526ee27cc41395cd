"""HTTP requests over real HTTPS: refusals, limits for strangers, and the shutdown of the server.

Covers server.listener.
"""

import asyncio
import gzip
import io
import math
import re
import socket
from typing import Any

import aiohttp
import orjson
import pytest

from tests.edge import ANSWER, NOW, OTHER, SECRET, TRUST, Running, asked, dial, https, post, running
from tests.waiting import until
from webhook.kube import bounds
from webhook.server import http
from webhook.server import listener as listen

REFUSED = [
    pytest.param("POST", "/", {}, 404, 'saw path "/", wanted /mutate, /validate', id="another path"),
    pytest.param("POST", "/mutate/", {}, 404, 'saw path "/mutate/", wanted /mutate, /validate', id="a slash too many"),
    pytest.param("GET", "/mutate", {}, 405, 'saw method "GET", wanted POST', id="another method"),
    pytest.param(
        "POST",
        "/mutate",
        {"Content-Type": "application/yaml"},
        415,
        'saw Content-Type "application/yaml", wanted application/json',
        id="another type",
    ),
    pytest.param(
        "POST", "/mutate", {"Content-Type": ""}, 415, 'saw Content-Type "", wanted application/json', id="no type"
    ),
    pytest.param(
        "POST",
        "/validate",
        {"Content-Encoding": "gzip"},
        415,
        'saw Content-Encoding "gzip", wanted none: send the body as it is',
        id="compressed",
    ),
    pytest.param(
        "POST",
        "/validate",
        {"Content-Encoding": "identity"},
        415,
        'saw Content-Encoding "identity", wanted none: send the body as it is',
        id="an encoding without effect",
    ),
]


@pytest.mark.parametrize(("method", "path", "headers", "status", "message"), REFUSED)
async def test_a_request_that_is_no_review_is_refused_with_a_reason(
    server: Running, *, method: str, path: str, headers: dict[str, str], status: int, message: str
) -> None:
    headers = {"Content-Type": "application/json", **headers}
    body = gzip.compress(b"{}") if headers.get("Content-Encoding") == "gzip" else b"{}"
    async with https() as client, client.request(method, server.url + path, data=body, headers=headers) as answer:
        assert (answer.status, await answer.text()) == (status, message + "\n")
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers.get("Allow") == ("POST" if status == 405 else None)
    assert server.bodies == []
    assert server.count(f'http_refused_total{{code="{status}"}}') == 1


@pytest.mark.parametrize("content", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
@pytest.mark.parametrize("path", ["/mutate", "/validate", "/mutate?timeout=3s"])
async def test_a_json_post_reaches_its_handler_byte_for_byte(
    server: Running, client: aiohttp.ClientSession, path: str, content: str
) -> None:
    async with client.post(server.url + path, data=b'{"a": 1}', headers={"Content-Type": content}) as answer:
        assert (answer.status, await answer.read()) == (200, ANSWER)
        assert answer.headers["Content-Type"] == "application/json"
        assert "Connection" not in answer.headers
    assert server.bodies == [b'{"a": 1}']


@pytest.mark.parametrize("size", [0, 1, 5_000, 200_000, 3 << 20, http.MAX_BODY_BYTES])
async def test_a_body_of_any_allowed_size_arrives_whole(
    server: Running, client: aiohttp.ClientSession, size: int
) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    async with client.post(
        server.url + "/mutate", data=io.BytesIO(body[:size]), headers={"Content-Type": "application/json"}
    ) as answer:
        assert answer.status == 200
    assert server.bodies == [body[:size]]


@pytest.mark.parametrize(("status", "again"), [(400, None), (503, "1")])
async def test_an_answer_of_the_handler_other_than_200_is_plain_text(
    client: aiohttp.ClientSession, status: int, again: str | None
) -> None:
    """The API server asks again only where an answer says when."""
    async with (
        running(lambda _: (status, b"no answer")) as server,
        client.post(server.url + "/mutate", json={}) as answer,
    ):
        assert (answer.status, await answer.text()) == (status, "no answer")
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert (answer.headers.get("Retry-After"), answer.headers["Connection"]) == (again, "close")


class Overtaken:
    """A handler that knows what it needs once it has been asked for it so many times."""

    def __init__(self, times: float) -> None:
        self.left = times

    def known(self) -> bool:
        self.left -= 1
        return self.left <= 0

    def __call__(self, body: bytes) -> tuple[int, bytes]:
        raise http.Early(
            body.decode(), self.known, lambda: (200, b"known" if self.left <= 0 else b"with what is known")
        )


@pytest.mark.parametrize(
    ("seconds", "times", "answer"),
    [
        pytest.param(60, 3, b"known", id="it comes"),
        pytest.param(0.01, math.inf, b"with what is known", id="it does not come"),
    ],
)
async def test_a_review_that_comes_early_waits_a_little(
    client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, seconds: float, times: float, answer: bytes
) -> None:
    monkeypatch.setattr(http, "EARLY_SECONDS", seconds)
    async with running(Overtaken(times)) as server, client.post(server.url + "/mutate", json={}) as got:
        assert (got.status, await got.read()) == (200, answer)


async def test_it_waits_no_longer_than_it_may_and_asks_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await http._until(lambda: False, 1.0)
    assert sum(pauses) == pytest.approx(1.0)
    assert len(pauses) < 12


async def test_a_large_review_is_decided_at_once(
    client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is parsed takes twelve times its bytes and more, and as many may wait as there are connections."""
    monkeypatch.setattr(http, "EARLY_SECONDS", math.inf)
    body = "x" * bounds.SMALL_REVIEW
    async with running(Overtaken(math.inf)) as server, client.post(server.url + "/mutate", json=body) as got:
        assert await asyncio.wait_for(got.read(), 60) == b"with what is known"


async def test_a_tenant_with_many_early_reviews_keeps_no_other_from_waiting(
    client: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "EARLY_SECONDS", math.inf)
    monkeypatch.setattr(http, "MAX_EARLY", 1)
    of = Overtaken(math.inf)
    async with running(of) as server:

        async def sent(tenant: str) -> bytes:
            async with client.post(server.url + "/mutate", json=tenant) as got:
                return await got.read()

        first = asyncio.create_task(sent("a"))
        await until(lambda: server.edge._early)
        assert await sent("a") == b"with what is known", "it does not wait"
        other = asyncio.create_task(sent("b"))
        await until(lambda: len(server.edge._early) == 2)
        of.left = 0
        assert [await first, await other] == [b"known"] * 2
    assert not server.edge._early


async def test_a_client_that_expects_100_continue_gets_it(server: Running) -> None:
    reader, writer = await server.open()
    writer.write(post(headers="Content-Type: application/json\r\nExpect: 100-continue"))
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"{}")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()


@pytest.mark.parametrize("begun", [b"", b'{"a'])
async def test_a_body_that_never_arrives_gets_a_408(
    server: Running, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.05)
    answer = await server.raw(post(length=100) + begun)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"saw %d bytes of body in 0.05 s, wanted all 100" % len(begun) in answer


@pytest.mark.parametrize("sent", [b"", b"POST /mut"])
async def test_an_idle_connection_is_closed_but_later_than_by_the_client_of_go(sent: bytes) -> None:
    assert listen.KEEPALIVE_SECONDS > 90
    async with running(keepalive=0.05) as server:
        assert await server.raw(sent) == b""


async def test_bytes_that_are_no_http_get_a_400_and_are_counted_but_not_logged(server: Running) -> None:
    assert re.match(rb"HTTP/1\.[01] 400 ", await server.raw(b"\x16\x03\x01 hello\r\n\r\n"))
    assert server.count('http_refused_total{code="400"}') == 1
    assert server.log.getvalue() == b""


async def test_a_crash_in_a_handler_is_a_500_that_names_the_log_and_leaks_nothing(
    client: aiohttp.ClientSession,
) -> None:
    def crash(body: bytes) -> tuple[int, bytes]:
        raise KeyError(SECRET)

    review = {"request": {"uid": "u-1\n2" + "x" * 99, "object": {"env": SECRET}}}
    async with running(crash) as server:
        async with client.post(server.url + "/mutate", json=review) as answer:
            assert answer.status == 500
            assert (
                await answer.text()
                == "internal error: the log of gpu-admission has the cause, under the uid of this review"
            )
        async with client.post(
            server.url + "/mutate", data=b"[", headers={"Content-Type": "application/json"}
        ) as answer:
            assert answer.status == 500
        lines = [orjson.loads(line) for line in server.log.getvalue().splitlines()]
        assert [line["uid"] for line in lines] == ["u-1\n2" + "x" * 59, ""]
        assert lines[0]["event"] == "handler failed"
        assert lines[0]["error"] == "KeyError"
        assert re.fullmatch(r".*test_http\.py:\d+ crash", lines[0]["trace"][-1])
        assert SECRET.encode() not in server.log.getvalue()
        assert SECRET.encode() not in server.metrics.text()


async def test_a_draining_server_answers_and_closes_each_connection(server: Running) -> None:
    kept_reader, kept_writer = await server.open()
    kept_writer.write(post() + b"{}")
    assert b"Connection" not in await kept_reader.readuntil(b"\r\n\r\n")
    await kept_reader.readexactly(len(ANSWER))
    server.edge.draining = True
    kept_writer.write(post() + b"{}")
    answer = await kept_reader.read()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.endswith(ANSWER)
    kept_writer.close()
    assert (await server.raw(post() + b"{}")).endswith(ANSWER), "new connections are still served"


async def test_requests_that_arrived_before_the_shutdown_are_answered(server: Running) -> None:
    connections = [await server.open() for _ in range(5)]
    for _, writer in connections:
        writer.write(post() + b"{}")
    await server.listener.stop(1)
    for reader, writer in connections:
        assert (await reader.read()).endswith(ANSWER)
        writer.close()


async def test_a_connection_that_was_not_accepted_yet_is_served_at_the_shutdown(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "CLOSE_SECONDS", 60.0)
    waiting = socket.create_connection(("localhost", server.port))
    stopping = asyncio.create_task(server.listener.stop(1))
    stream = await asyncio.open_connection(sock=waiting, ssl=TRUST, server_hostname="localhost")
    assert await asked(stream) == 200
    stream[1].close()
    await stopping


async def test_neither_an_idle_nor_a_silent_connection_delays_the_shutdown(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "HANDSHAKE_SECONDS", 600.0)
    assert await asked(await server.open()) == 200
    server.opened.append(await dial(server, trust=None))
    await until(lambda: len(server.listener.open) == 2)
    async with asyncio.timeout(60):  # it would take ten times as long
        await server.listener.stop(600)


async def test_a_new_certificate_is_used_for_new_connections_and_the_old_ones_continue(server: Running) -> None:
    def shown(writer: asyncio.StreamWriter) -> Any:
        return writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]

    old_reader, old_writer = await server.open()
    server.live.swap(OTHER, NOW)
    _, new_writer = await server.open()
    assert shown(old_writer) != shown(new_writer)
    old_writer.write(post() + b"{}")
    assert (await old_reader.readline()).startswith(b"HTTP/1.1 200")
    old_writer.close()
    new_writer.close()


async def test_any_number_of_codes_and_paths_adds_no_series(server: Running, client: aiohttp.ClientSession) -> None:
    for i in range(30):
        async with client.post(f"{server.url}/{i}", data=b"") as answer:
            assert answer.status == 404
    assert server.metrics.text().count(b"gpu_admission_http_refused_total{") == 1
