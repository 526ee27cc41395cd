"""The API server is answered while strangers attack the port of a real HTTPS server.

The API server calls from 127.0.0.1. Strangers call from other addresses, or from the same one, as behind a load balancer.

Covers server.http_response.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

import pytest
import trustme

from tests.edge import (
    ANSWER,
    API_SERVER,
    CA,
    LEAF,
    NOW,
    TRUST,
    asked,
    dial,
    post,
    running,
    streams,
)
from tests.waiting import until
from webhook.server import handshakes, http, http_response, protocol
from webhook.server.load import MAX_BYTES, Queue
from webhook.tls.serve import LiveContext

WHERE = [
    pytest.param(["127.0.7.2"], id="from one address"),
    pytest.param([f"127.0.7.{i}" for i in range(2, 12)], id="from ten addresses"),
    pytest.param([API_SERVER], id="from the address of the API server"),
]


@pytest.mark.parametrize("addresses", WHERE)
@pytest.mark.parametrize("tls", [True, False], ids=["after the handshake", "before the handshake"])
async def test_silent_connections_are_closed_for_those_that_send_requests(addresses: list[str], tls: bool) -> None:
    async with running(limit=32) as server, streams() as opened:
        kept = [await dial(server) for _ in range(10)]
        opened.extend(kept)
        assert [await asked(stream) for stream in kept] == [200] * 10
        for i in range(60):
            opened.append(await dial(server, addresses[i % len(addresses)], TRUST if tls else None))
            if i % 10 == 9:
                opened.append(fresh := await dial(server))
                assert await asked(fresh) == 200
        assert [await asked(stream) for stream in kept] == [200] * 10
        assert server.listener.connections <= 32


@pytest.mark.parametrize("addresses", [WHERE[0], WHERE[1]])
async def test_idle_connections_are_closed_before_a_new_one_is_refused(addresses: list[str]) -> None:
    async with running(limit=32) as server, streams() as opened:
        kept = [await dial(server) for _ in range(2)]
        opened.extend(kept)
        assert [await asked(stream) for stream in kept] == [200] * 2
        for i in range(60):
            opened.append(stranger := await dial(server, addresses[i % len(addresses)]))
            assert await asked(stranger) == 200
        assert [await asked(stream) for stream in kept] == [200] * 2
        opened.append(fresh := await dial(server))
        assert await asked(fresh) == 200


@pytest.mark.parametrize("sent", [b"", b"POST /mut", post()[:-2], post(length=100) + b"{"])
async def test_a_connection_without_a_whole_request_is_closed_within_seconds(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.1)
    async with running(silent=0.2) as server, streams() as opened:
        opened += [quiet := await dial(server), talking := await dial(server)]
        assert await asked(talking) == 200
        quiet[1].write(sent)
        with suppress(ConnectionError):
            await quiet[0].read()
        assert server.bodies == [b"{}"]
        assert await asked(talking) == 200


async def test_a_connection_that_sends_headers_slowly_is_closed_as_silent() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        for byte in post(headers="A: " + "a" * 2000):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with running(silent=0.2) as server, streams() as opened:
        opened.append(slow := await dial(server))
        with pytest.raises(ConnectionError):
            await drip(slow[1])


@pytest.mark.parametrize("addresses", WHERE)
async def test_incomplete_bodies_do_not_delay_whole_ones(addresses: list[str]) -> None:
    async with running() as server, streams() as opened:
        for i in range(100):
            opened.append(stranger := await dial(server, addresses[i % len(addresses)]))
            stranger[1].write(post(length=100) + b"{")
        opened.append(ours := await dial(server))
        reader, writer = ours
        for _ in range(20):
            writer.write(post(length=20) + b"{")  # a body of the API server may arrive in two pieces
            await asyncio.sleep(0)
            writer.write(b" " * 18 + b"}")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await reader.readuntil(ANSWER)


@pytest.mark.parametrize("addresses", WHERE)
async def test_one_large_body_is_read_in_ten_seconds_and_small_ones_are_answered_meanwhile(
    addresses: list[str],
) -> None:
    async with running() as server, streams() as opened:
        for i in range(40):
            opened.append(stranger := await dial(server, addresses[i % len(addresses)]))
            stranger[1].write(post(length=http.MAX_BODY_BYTES) + b" " * 1000)
        opened.append(ours := await dial(server))
        await until(lambda: server.count('shed_total{reason="large"}') == 39)
        assert server.edge.transfers.total == http.MAX_BODY_BYTES
        for _ in range(3):
            assert await asked(ours, b"{" + b" " * (1 << 20) + b"}") == 200
    await until(lambda: server.edge.transfers.total == 0)


async def test_a_large_body_is_answered_and_the_next_one_is_refused() -> None:
    large = b"{" + b" " * (3 << 20) + b"}"
    async with running() as server, streams() as opened:
        opened.append(ours := await dial(server))
        assert await asked(ours, large) == 200
        opened.append(again := await dial(server))
        again[1].write(post(length=len(large)))
        assert (await again[0].readline()).startswith(b"HTTP/1.1 503")


@pytest.mark.parametrize("chunk", [b"1\r\n \r\n", b"1000\r\n" + b" " * 4096 + b"\r\n"], ids=["a byte", "a page"])
async def test_chunked_bodies_of_any_pace_do_not_delay_whole_ones(chunk: bytes) -> None:
    head = "Host: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
    async with running() as server, streams() as opened:
        for _ in range(30):
            opened.append(stranger := await dial(server, "127.0.7.2"))
            stranger[1].write(f"POST /mutate HTTP/1.1\r\n{head}\r\n\r\n".encode() + chunk * 100)
        opened.append(ours := await dial(server))
        for _ in range(20):
            for stranger in opened[:-1]:
                stranger[1].write(chunk)
            assert await asked(ours, b"{" + b" " * 300_000 + b"}") == 200


@pytest.mark.parametrize("addresses", [WHERE[0], WHERE[1]])
async def test_a_flood_of_reviews_is_refused_and_the_api_server_is_answered(addresses: list[str]) -> None:
    async with running(silent=60) as server, streams() as opened:
        server.edge.queue = Queue(limit=20 * 0.0006, turn=1e-9)  # room for twenty; one is decided in each turn
        strangers = [await dial(server, addresses[i % len(addresses)]) for i in range(200)]
        ours = await dial(server)
        opened += [*strangers, ours]
        for _ in range(5):
            hammering = [asyncio.create_task(asked(stranger)) for stranger in strangers]
            assert [await asked(ours) for _ in range(3)] == [200] * 3
            statuses = await asyncio.gather(*hammering)
            assert set(statuses) == {200, 503}
            assert statuses.count(503) > 50
        assert server.count('shed_total{reason="work"}') == server.count('http_refused_total{code="503"}') > 250


async def test_a_refused_request_gets_retry_after_and_keeps_its_connection() -> None:
    async with running() as server, streams() as opened:
        server.edge.queue = Queue(limit=1e-9, turn=1e-9)
        opened += [await dial(server) for _ in range(30)]
        for _, writer in opened:
            writer.write(post() + b"{}")
        answers = [await reader.readuntil(b"\r\n\r\n") for reader, _ in opened]
        refused = next(i for i, head in enumerate(answers) if head.startswith(b"HTTP/1.1 503"))
        assert b"\r\nRetry-After: 1\r\n" in answers[refused]
        assert b"Connection" not in answers[refused]
        reader, writer = opened[refused]
        assert await reader.readline() == b"too much to do: ask again in a second\n"
        assert await asked((reader, writer)) == 200


async def test_a_large_body_is_refused_before_it_is_read_if_the_queue_has_no_room() -> None:
    async with running() as server, streams() as opened:
        opened += [await dial(server), await dial(server, "127.0.7.2")]
        server.edge.queue.cost = 10.0  # seconds of waiting work
        reader, writer = opened[1]
        writer.write(post(length=5 << 20) + b"{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        assert server.edge.transfers.total == 0


async def test_unread_answers_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_response, "SEND_SECONDS", 0.5)
    answer = b"x" * (9 << 20)
    async with running(lambda body: (200, answer if body == b"{large}" else ANSWER)) as server, streams() as opened:
        most = 0
        for _ in range(20):
            opened.append(stranger := await dial(server, "127.0.7.2"))
            stranger[1].transport.pause_reading()  # type: ignore[attr-defined]
            stranger[1].write(post(length=7) + b"{large}")
            await asyncio.sleep(0.05)
            most = max(most, server.edge.transfers.total)
        opened.append(ours := await dial(server))
        assert await asked(ours) == 200
        assert (8 << 20) < most <= MAX_BYTES
        assert server.bodies.count(b"{large}") == 20, "each once"
        await until(lambda: server.edge.transfers.total == 0)
        assert await asked(ours, b"{large}") == 200


async def test_a_peer_with_endless_new_connections_waits_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshakes, "BURST", 20)
    async with running(silent=60) as server, streams() as opened:
        opened.append(ours := await dial(server))
        assert await asked(ours) == 200
        for _ in range(100):
            opened.append(stranger := await dial(server, "127.0.7.2", None))
            stranger[1].write(b"\x16\x03\x01")
        fresh = [await dial(server) for _ in range(30)]
        opened.extend(fresh)
        assert [await asked(stream) for stream in fresh] == [200] * 30
        assert server.listener.connections == 131
        waiting = len(server.listener._handshakes.pending())
        assert 20 < waiting <= 80
        await until(lambda: len(server.listener._handshakes.pending()) < waiting)


async def test_connections_that_send_nothing_begin_no_handshake() -> None:
    async with running() as server, streams() as opened:
        opened.extend([await dial(server, "127.0.7.2", None) for _ in range(50)])
        opened.append(ours := await dial(server))
        assert await asked(ours) == 200
        assert len(server.listener._handshakes.pending()) == 50
        assert len(server.listener._server.connections) == 1


async def test_a_body_that_is_refused_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read, inner = 0, protocol.Handler.data_received

    def count(handler: protocol.Handler, data: bytes) -> None:
        nonlocal read
        read += len(data)
        inner(handler, data)

    monkeypatch.setattr(protocol.Handler, "data_received", count)
    monkeypatch.setattr(http_response, "LINGER_SECONDS", 0.3)
    async with running() as server, streams() as opened:
        server.edge.queue.cost = 10.0  # seconds of waiting work
        opened.append(ours := await dial(server))
        reader, writer = ours
        writer.write(post(length=http.MAX_BODY_BYTES) + b" " * http.MAX_BODY_BYTES)
        assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        with suppress(ConnectionError):
            await reader.read()
        assert 0 < read < 1 << 20


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
