"""Handshakes that no API server does end, cost no more than one, and keep no review waiting. First the clients that are served.

Covers server.listener.
"""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.load import anybody
from tests.edge import Running, asked, dial, running, streams
from tests.server.misuse import BIG, COUNT, MOST, STRANGER, beside, heard
from tests.server.records import client_hello, in_records, renegotiations
from webhook.server.load import Turns

# --- clients ----------------------------------------------------------------------------------------------------------

CLIENTS: dict[str, tuple[Callable[[ssl.SSLContext], object], str | None]] = {
    "a name": (lambda tls: None, "localhost"),
    "no name": (lambda tls: None, None),
    "the longest name": (lambda tls: None, ".".join(["a" * 62] * 4)),
    "an address in place of a name": (lambda tls: None, "127.0.0.1"),
    "HTTP/2 first, as Go offers it": (lambda tls: tls.set_alpn_protocols(["h2", "http/1.1"]), "localhost"),
    "HTTP/2 only": (lambda tls: tls.set_alpn_protocols(["h2"]), "localhost"),
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_is_served_whatever_it_says_about_name_and_protocol(server: Running, client: str) -> None:
    tls = anybody()
    CLIENTS[client][0](tls)
    async with streams() as opened:
        opened.append(
            stream := await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=tls, server_hostname=CLIENTS[client][1] or ""
            )
        )
        assert await asked(stream) == 200
        session = stream[1].get_extra_info("ssl_object").session
        assert not session.has_ticket
        assert stream[1].get_extra_info("ssl_object").selected_alpn_protocol() is None


# --- handshakes -------------------------------------------------------------------------------------------------------

HELLO = client_hello()
BROKEN: dict[str, list[bytes]] = {
    "silence": [],
    "plain HTTP": [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"],
    "noise": [bytes(range(256)) * 20],
    "empty records": [b"\x16\x03\x01\0\0" * 1000],
    "SSL 2": [b"\x80\x2e\x01\0\x02\0\x15\0\0\0\x10" + b"x" * 60],
    "a hello in records of one byte": [in_records(HELLO, 1)],
    "a hello in two records": [in_records(HELLO, 400)],
    "a hello with a wrong length": [HELLO[:6] + b"\xff" + HELLO[7:]],
    "nothing after the hello": [HELLO],
    "noise after the hello": [HELLO, BIG],
    "empty records after the hello": [HELLO + b"\x16\x03\x03\0\0" * 10_000],
}


@pytest.mark.parametrize("misuse", BROKEN)
async def test_what_is_no_handshake_is_closed(misuse: str) -> None:
    async with running() as server, streams() as opened:
        opened += [await dial(server, STRANGER, None) for _ in range(COUNT)]
        saying = [asyncio.create_task(heard(stream, *BROKEN[misuse])) for stream in opened]
        for answer in await beside(server, saying):
            assert len(answer) < MOST
        assert server.log.getvalue() == b""


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_3])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_other_versions_of_tls_are_refused(server: Running, version: ssl.TLSVersion) -> None:
    tls = anybody()
    tls.minimum_version = version
    tls.maximum_version = version
    tls.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await dial(server, STRANGER, tls)


async def test_a_hello_in_records_of_one_byte_is_not_given_to_openssl(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hello of 125 KB in such records takes as long as 17 handshakes."""
    begun: list[str] = []
    monkeypatch.setattr(Turns, "wait", lambda _, line, cost, namespace="": begun.append(line))
    async with streams() as opened:
        opened.append(stranger := await dial(server, STRANGER, None))
        assert await heard(stranger, in_records(HELLO, 1)) == b""
    assert begun == []


@pytest.mark.asyncio(loop_factories=["uvloop", "asyncio"])
async def test_connections_that_ask_for_new_handshakes_without_end_are_cut(tmp_path: Path) -> None:
    """TLS answers each by itself, so nothing of it is data."""
    async with running() as server, streams() as opened:
        saying = []
        for number in range(3):
            stream, records = await renegotiations(server.port, STRANGER, tmp_path / str(number), 20_000)
            opened.append(stream)
            saying.append(asyncio.create_task(heard(stream, records)))
        for answer in await beside(server, saying):
            assert answer.count(b"\x15\x03\x03\0\x1a") < 10_000, "it has answered them all"
