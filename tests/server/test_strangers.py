"""The API server is answered while strangers attack the port of a real HTTPS server.

The API server calls from 127.0.0.1. Strangers call from other addresses, or from the same one, as behind a load balancer.
"""

import ssl
from contextlib import suppress

import pytest
import trustme
from aiohttp import web

from tests.edge import ANSWER, API_SERVER, CA, LEAF, NOW, TRUST, asked, dial, post, running, streams
from tests.waiting import until
from webhook.server import http, listener, load
from webhook.server.load import MAX_UNREAD
from webhook.tls.serve import LiveContext

WHERE = [
    pytest.param(["127.0.7.2"], id="from one address"),
    pytest.param([f"127.0.7.{i}" for i in range(2, 12)], id="from ten addresses"),
    pytest.param([API_SERVER], id="from the address of the API server"),
]


@pytest.mark.parametrize("addresses", WHERE)
@pytest.mark.parametrize(
    ("sent", "tls"),
    [(b"", None), (b"", TRUST), (post()[:-2], TRUST), (post(length=100) + b"{", TRUST), (post() + b"{}", TRUST)],
    ids=["before the handshake", "after it", "half a head", "half a body", "a whole one, and then no other"],
)
async def test_connections_that_are_of_no_use_are_closed_for_those_that_send_requests(
    sent: bytes, tls: ssl.SSLContext | None, addresses: list[str]
) -> None:
    async with running(limit=64) as server, streams() as opened:
        kept = [await dial(server) for _ in range(5)]
        opened.extend(kept)
        for i in range(120):
            opened.append(stranger := await dial(server, addresses[i % len(addresses)], tls))
            stranger[1].write(sent)
            if i % 10 == 9:
                opened.append(fresh := await dial(server))
                assert [await asked(stream) for stream in (fresh, *kept)] == [200] * 6
                fresh[1].close()
        assert len(server.listener.open) <= 64


@pytest.mark.parametrize("addresses", WHERE)
async def test_one_large_body_is_read_for_a_while_and_small_ones_are_answered_meanwhile(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "LARGE_SECONDS", 1000.0)
    async with running() as server, streams() as opened:
        for i in range(40):
            opened.append(stranger := await dial(server, addresses[i % len(addresses)]))
            stranger[1].write(post(length=http.MAX_BODY_BYTES) + b" " * 1000)
        opened.append(ours := await dial(server))
        await until(lambda: server.count('shed_total{reason="large"}') == 39)
        assert server.edge.held.total < http.MAX_BODY_BYTES
        for _ in range(3):
            assert await asked(ours, b"{" + b" " * (1 << 20) + b"}") == 200
        opened.append(last := await dial(server))
        last[1].write(post(length=http.MAX_BODY_BYTES))
        assert b"\r\nConnection: close\r\n" in await last[0].readuntil(b"\r\n\r\n")
    await until(lambda: server.edge.held.total == 0)


async def test_a_connection_whose_answer_nobody_reads_is_the_first_to_go() -> None:
    answer = b"x" * (9 << 20)
    async with (
        running(lambda body: (200, answer if body == b"{large}" else ANSWER), limit=4) as server,
        streams() as opened,
    ):
        opened.append(ours := await dial(server))
        opened.append(stranger := await dial(server))
        stranger[1].transport.pause_reading()  # type: ignore[attr-defined]
        stranger[1].write(post(length=7) + b"{large}")
        await until(lambda: b"{large}" in server.bodies)
        assert await asked(ours) == 200
        for _ in range(3):
            opened.append(await dial(server))
        assert server.count("connections_cut_total") == 1
        assert [await asked(stream) for stream in (ours, *opened[2:])] == [200] * 4


async def test_connections_that_send_nothing_begin_no_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    wait = load.Turns.wait

    async def counted(turns: load.Turns, name: str, cost: float, namespace: str = "") -> None:
        begun.append(name)
        await wait(turns, name, cost, namespace)

    monkeypatch.setattr(load.Turns, "wait", counted)
    async with running() as server, streams() as opened:
        opened.extend([await dial(server, "127.0.7.2", None) for _ in range(50)])
        opened.append(ours := await dial(server))
        assert await asked(ours) == 200
        assert begun == ["127.0.0.1 handshakes", "127.0.0.1 /mutate"]
        assert len(server.listener.open) == 51


def fed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What aiohttp parses, piece by piece."""
    found: list[bytes] = []
    inner = web.RequestHandler.data_received

    def data_received(handler: web.RequestHandler, data: bytes) -> None:
        found.append(data)
        inner(handler, data)

    monkeypatch.setattr(web.RequestHandler, "data_received", data_received)
    return found


HEAD = b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
UNWANTED = [
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 100_000, 411, id="chunks of one byte"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0\r\n" + b"a: b\r\n" * 100_000, 411, id="trailers"),
    pytest.param(HEAD + b"\r\n", b" " * 100_000, 411, id="no length"),
    pytest.param(HEAD + b"Content-Length: 8388609\r\n\r\n", b" " * 8388609, 413, id="too large"),
    pytest.param(
        HEAD + b"Content-Encoding: gzip\r\nContent-Length: 90000\r\n\r\n", b" " * 90_000, 415, id="compressed"
    ),
    pytest.param(b"GET /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 90000\r\n\r\n", b" " * 90_000, 405, id="GET"),
]


@pytest.mark.parametrize(("head", "body", "status"), UNWANTED)
async def test_of_a_body_that_is_refused_nothing_is_parsed_and_little_is_held(
    head: bytes, body: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0 if status == 411 else 3 * MAX_UNREAD  # as much as the kernel, TLS and a buffer hold: it is not looked at
    monkeypatch.setattr(listener, "LINGER_SECONDS", 0.1)
    parsed = fed(monkeypatch)
    async with running() as server, streams() as opened:
        opened.append(ours := await dial(server))
        ours[1].write(head + body)
        assert (await ours[0].readline()).startswith(b"HTTP/1.1 %d " % status)
        with suppress(ConnectionError):
            await ours[0].read()
        assert len(b"".join(parsed)) <= len(head) + most
        assert server.bodies == []


@pytest.mark.asyncio(loop_factories=["uvloop", "asyncio"])
async def test_a_body_in_records_of_one_byte_is_cut_after_those_that_the_kernel_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed = fed(monkeypatch)
    async with running() as server, streams() as opened:
        opened.append(stranger := await dial(server))
        tls = stranger[1].get_extra_info("ssl_object")
        stranger[1].write(post(length=1 << 20))
        with suppress(ConnectionError):
            for _ in range(20_000):  # a record each, many in one packet
                tls.write(b" ")
            stranger[1].write(b" ")
            await stranger[0].read()
        assert len(b"".join(parsed)) < 8_000
        assert server.bodies == []


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param((post() + b"{}") * 20, id="in one packet"),
        pytest.param(post() + b"{}" + b"X" * 5000, id="more than the length"),
    ],
)
async def test_of_requests_without_an_answer_in_between_at_most_one_is_parsed(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = fed(monkeypatch)
    async with running() as server, streams() as opened:
        opened.append(stranger := await dial(server))
        stranger[1].write(sent)
        with suppress(ConnectionError):
            await stranger[0].read()
        assert b"".join(parsed) in (b"", post(), post() + b"{}")
        assert len(server.bodies) <= 1


@pytest.mark.parametrize("addresses", WHERE)
async def test_a_client_without_a_certificate_is_refused_before_a_byte_is_parsed(addresses: list[str]) -> None:
    """A client with a certificate keeps its connection, even without a request."""
    authority = trustme.CA()
    live = LiveContext(authority.cert_pem.bytes())
    live.swap(LEAF, NOW)
    known = ssl.create_default_context(cadata=CA.certificate.decode())
    authority.issue_cert("kube-apiserver").configure_cert(known)
    async with running(live=live, limit=32, authenticated=True) as server, streams() as opened:
        opened += [silent := await dial(server, trust=known), ours := await dial(server, trust=known)]
        assert await asked(ours) == 200
        for i in range(60):
            tls = [None, TRUST][i % 2]
            with suppress(OSError):  # the server may refuse during the handshake
                opened.append(stranger := await dial(server, addresses[i % len(addresses)], tls))
                stranger[1].write(post() + b"{}")
        assert await asked(ours) == 200
        assert await asked(silent) == 200
        assert server.bodies == [b"{}"] * 3, "no stranger's request was taken"
        assert server.count('http_refused_total{code="400"}') == 0
