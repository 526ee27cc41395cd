"""The API server is answered while strangers attack the port: on a real HTTPS server, with answers counted.

The API server calls from 127.0.0.1. Strangers come from other addresses, or from its own, as behind a load balancer.

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
    until,
)
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
async def test_silent_connections_make_room_for_those_that_ask(addresses: list[str], tls: bool) -> None:
    async with running(limit=32) as it, streams() as opened:
        kept = [await dial(it) for _ in range(10)]
        opened.extend(kept)
        assert [await asked(stream) for stream in kept] == [200] * 10
        for i in range(60):
            opened.append(await dial(it, addresses[i % len(addresses)], TRUST if tls else None))
            if i % 10 == 9:
                opened.append(fresh := await dial(it))
                assert await asked(fresh) == 200
        assert [await asked(stream) for stream in kept] == [200] * 10
        assert it.listener.connections <= 32


@pytest.mark.parametrize("addresses", [WHERE[0], WHERE[1]])
async def test_idle_connections_that_have_asked_go_before_anybody_is_turned_away(addresses: list[str]) -> None:
    async with running(limit=32) as it, streams() as opened:
        kept = [await dial(it) for _ in range(2)]
        opened.extend(kept)
        assert [await asked(stream) for stream in kept] == [200] * 2
        for i in range(60):
            opened.append(stranger := await dial(it, addresses[i % len(addresses)]))
            assert await asked(stranger) == 200
        assert [await asked(stream) for stream in kept] == [200] * 2
        opened.append(fresh := await dial(it))
        assert await asked(fresh) == 200


@pytest.mark.parametrize("sent", [b"", b"POST /mut", post()[:-2], post(length=100) + b"{"])
async def test_a_connection_that_does_not_ask_goes_within_seconds(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.1)
    async with running(silent=0.2) as it, streams() as opened:
        opened += [quiet := await dial(it), talking := await dial(it)]
        assert await asked(talking) == 200
        quiet[1].write(sent)
        with suppress(ConnectionError):
            await quiet[0].read()
        assert it.bodies == [b"{}"]
        assert await asked(talking) == 200


async def test_a_drip_of_headers_does_not_make_a_connection_one_that_asks() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        for byte in post(headers="A: " + "a" * 2000):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with running(silent=0.2) as it, streams() as opened:
        opened.append(slow := await dial(it))
        with pytest.raises(ConnectionError):
            await drip(slow[1])


@pytest.mark.parametrize("addresses", WHERE)
async def test_half_sent_bodies_take_no_place_from_whole_ones(addresses: list[str]) -> None:
    async with running() as it, streams() as opened:
        for i in range(100):
            opened.append(stranger := await dial(it, addresses[i % len(addresses)]))
            stranger[1].write(post(length=100) + b"{")
        opened.append(ours := await dial(it))
        reader, writer = ours
        for _ in range(20):
            writer.write(post(length=20) + b"{")  # as the API server's may come: in two pieces
            await asyncio.sleep(0)
            writer.write(b" " * 18 + b"}")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await reader.readuntil(ANSWER)


@pytest.mark.parametrize("addresses", WHERE)
async def test_of_large_bodies_one_is_read_in_ten_seconds_and_others_are_answered_meanwhile(
    addresses: list[str],
) -> None:
    async with running() as it, streams() as opened:
        for i in range(40):
            opened.append(stranger := await dial(it, addresses[i % len(addresses)]))
            stranger[1].write(post(length=http.MAX_BODY_BYTES) + b" " * 1000)
        opened.append(ours := await dial(it))
        await until(lambda: it.count('shed_total{reason="large"}') == 39)
        assert it.edge.bytes.total == http.MAX_BODY_BYTES
        for _ in range(3):
            assert await asked(ours, b"{" + b" " * (1 << 20) + b"}") == 200
    await until(lambda: it.edge.bytes.total == 0)


async def test_a_large_body_is_answered_and_the_next_one_asked_to_wait() -> None:
    large = b"{" + b" " * (3 << 20) + b"}"
    async with running() as it, streams() as opened:
        opened.append(ours := await dial(it))
        assert await asked(ours, large) == 200
        opened.append(again := await dial(it))
        again[1].write(post(length=len(large)))
        assert (await again[0].readline()).startswith(b"HTTP/1.1 503")


@pytest.mark.parametrize("chunk", [b"1\r\n \r\n", b"1000\r\n" + b" " * 4096 + b"\r\n"], ids=["a byte", "a page"])
async def test_chunked_bodies_of_any_pace_take_no_place_from_whole_ones(chunk: bytes) -> None:
    head = "Host: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
    async with running() as it, streams() as opened:
        for _ in range(30):
            opened.append(stranger := await dial(it, "127.0.7.2"))
            stranger[1].write(f"POST /mutate HTTP/1.1\r\n{head}\r\n\r\n".encode() + chunk * 100)
        opened.append(ours := await dial(it))
        for _ in range(20):
            for stranger in opened[:-1]:
                stranger[1].write(chunk)
            assert await asked(ours, b"{" + b" " * 300_000 + b"}") == 200


@pytest.mark.parametrize("addresses", [WHERE[0], WHERE[1]])
async def test_a_flood_of_reviews_is_refused_and_the_api_server_is_answered(addresses: list[str]) -> None:
    async with running(silent=60) as it, streams() as opened:
        it.edge.queue = Queue(limit=20 * 0.0006, turn=1e-9)  # twenty wait, one is decided in a turn
        strangers = [await dial(it, addresses[i % len(addresses)]) for i in range(200)]
        ours = await dial(it)
        opened += [*strangers, ours]
        for _ in range(5):
            hammering = [asyncio.create_task(asked(stranger)) for stranger in strangers]
            assert [await asked(ours) for _ in range(3)] == [200] * 3
            found = await asyncio.gather(*hammering)
            assert set(found) == {200, 503}
            assert found.count(503) > 50
        assert it.count('shed_total{reason="work"}') == it.count('http_refused_total{code="503"}') > 250


async def test_a_refused_request_gets_retry_after_and_keeps_its_connection() -> None:
    async with running() as it, streams() as opened:
        it.edge.queue = Queue(limit=1e-9, turn=1e-9)
        opened += [await dial(it) for _ in range(30)]
        for _, writer in opened:
            writer.write(post() + b"{}")
        answers = [await reader.readuntil(b"\r\n\r\n") for reader, _ in opened]
        refused = next(i for i, head in enumerate(answers) if head.startswith(b"HTTP/1.1 503"))
        assert b"\r\nRetry-After: 1\r\n" in answers[refused]
        assert b"Connection" not in answers[refused]
        reader, writer = opened[refused]
        assert await reader.readline() == b"too much to do: ask again in a second\n"
        assert await asked((reader, writer)) == 200


async def test_a_large_body_is_sent_away_before_it_is_read_where_it_would_not_be_decided() -> None:
    async with running() as it, streams() as opened:
        opened += [await dial(it), await dial(it, "127.0.7.2")]
        it.edge.queue.cost = 10.0  # as if so much were waiting
        reader, writer = opened[1]
        writer.write(post(length=5 << 20) + b"{")
        assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        assert it.edge.bytes.total == 0


async def test_unread_answers_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_response, "SEND_SECONDS", 0.5)
    answer = b"x" * (9 << 20)
    async with running(lambda body: (200, answer if body == b"{large}" else ANSWER)) as it, streams() as opened:
        most = 0
        for _ in range(20):
            opened.append(stranger := await dial(it, "127.0.7.2"))
            stranger[1].transport.pause_reading()  # type: ignore[attr-defined]
            stranger[1].write(post(length=7) + b"{large}")
            await asyncio.sleep(0.05)
            most = max(most, it.edge.bytes.total)
        opened.append(ours := await dial(it))
        assert await asked(ours) == 200
        assert (8 << 20) < most <= MAX_BYTES
        assert it.bodies.count(b"{large}") == 20, "each once"
        await until(lambda: it.edge.bytes.total == 0)
        assert await asked(ours, b"{large}") == 200


async def test_a_peer_with_endless_new_connections_waits_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshakes, "BURST", 20)
    async with running(silent=60) as it, streams() as opened:
        opened.append(ours := await dial(it))
        assert await asked(ours) == 200
        for _ in range(100):
            opened.append(stranger := await dial(it, "127.0.7.2", None))
            stranger[1].write(b"\x16\x03\x01")
        fresh = [await dial(it) for _ in range(30)]
        opened.extend(fresh)
        assert [await asked(stream) for stream in fresh] == [200] * 30
        assert it.listener.connections == 131
        waiting = len(it.listener._waiting.waiting())
        assert 20 < waiting <= 80
        await until(lambda: len(it.listener._waiting.waiting()) < waiting)


async def test_connections_that_say_nothing_have_no_handshake_and_wait_for_none() -> None:
    async with running() as it, streams() as opened:
        opened.extend([await dial(it, "127.0.7.2", None) for _ in range(50)])
        opened.append(ours := await dial(it))
        assert await asked(ours) == 200
        assert len(it.listener._waiting.waiting()) == 50
        assert len(it.listener._server.connections) == 1


async def test_a_body_that_is_refused_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read, inner = 0, protocol.Handler.data_received

    def count(handler: protocol.Handler, data: bytes) -> None:
        nonlocal read
        read += len(data)
        inner(handler, data)

    monkeypatch.setattr(protocol.Handler, "data_received", count)
    monkeypatch.setattr(http_response, "LINGER_SECONDS", 0.3)
    async with running() as it, streams() as opened:
        it.edge.queue.cost = 10.0  # as if so much were waiting
        opened.append(ours := await dial(it))
        reader, writer = ours
        writer.write(post(length=http.MAX_BODY_BYTES) + b" " * http.MAX_BODY_BYTES)
        assert (await reader.readline()).startswith(b"HTTP/1.1 503")
        with suppress(ConnectionError):
            await reader.read()
        assert 0 < read < 1 << 20


@pytest.mark.parametrize("addresses", WHERE)
async def test_a_client_without_a_certificate_is_refused_before_a_byte_is_parsed(addresses: list[str]) -> None:
    """And who shows one is not the one that makes room, silent or not."""
    authority = trustme.CA()
    live = LiveContext(authority.cert_pem.bytes())
    live.swap(LEAF, NOW)
    known = ssl.create_default_context(cadata=CA.certificate.decode())
    authority.issue_cert("kube-apiserver").configure_cert(known)
    async with running(live=live, limit=32, authenticated=True) as it, streams() as opened:
        opened += [silent := await dial(it, trust=known), ours := await dial(it, trust=known)]
        assert await asked(ours) == 200
        for i in range(60):
            tls = [None, TRUST][i % 2]
            with suppress(OSError):  # the server may say no while we still shake hands
                opened.append(stranger := await dial(it, addresses[i % len(addresses)], tls))
                stranger[1].write(post() + b"{}")
        assert await asked(ours) == 200
        assert await asked(silent) == 200
        assert it.bodies == [b"{}"] * 3, "no stranger's request was taken"
        assert it.count('http_refused_total{code="400"}') == 0
