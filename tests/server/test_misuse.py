"""Each misuse of the ports by a stranger gets a bounded answer, or none, and a review beside it is answered.

Floods are in `tests/strangers.py`; here each kind of misuse comes on a few connections.
Covers server.listener.
"""

import asyncio
import socket
import struct

import pytest

from tests.edge import ANSWER, API_SERVER, Running, Stream, asked, dial, post, running, streams
from tests.effort import counted
from tests.server.misuse import BIG, COUNT, MOST, STRANGER, beside, heard
from tests.server.records import client_hello
from tests.waiting import until
from webhook.server.http import ops
from webhook.server.listener import MAX_HEAD, Listener
from webhook.server.load import Turns

JSON = "Content-Type: application/json\r\n"
HELLO = client_hello()

# --- HTTP -------------------------------------------------------------------------------------------------------------


def head(line: str = "POST /mutate HTTP/1.1", headers: str = JSON, length: int | str | None = 2) -> bytes:
    counted = "" if length is None else f"Content-Length: {length}\r\n"
    return f"{line}\r\nHost: a\r\n{counted}{headers}\r\n".encode()


CHUNKS = b"1\r\n \r\n" * 20_000
REFUSED: dict[str, tuple[list[bytes], int]] = {
    "CONNECT": ([head("CONNECT a:443 HTTP/1.1", length=None), BIG], 404),
    "OPTIONS of everything": ([head("OPTIONS * HTTP/1.1", length=None)], 404),
    "a method of many letters": ([head("A" * 1000 + " /mutate HTTP/1.1")], 400),
    "a path of 8 KB": ([head("POST /" + "a" * 8192 + " HTTP/1.1")], 400),
    "a path with dots": ([head("POST /a/../mutate HTTP/1.1")], 404),
    "a proxy's path to elsewhere": ([head("POST http://169.254.169.254/latest HTTP/1.1")], 404),
    "two different lengths": ([head(headers=f"{JSON}Content-Length: 200000\r\n"), BIG], 400),
    "the same length twice": ([head(headers=f"{JSON}Content-Length: 2\r\n"), b"{}"], 400),
    "a folded length": ([head(length=None, headers=f"{JSON}Content-Length:\r\n 2\r\n"), BIG], 400),
    "a length with a sign": ([head(length="+2"), b"{}"], 400),
    "a length of a thousand digits": ([head(length="9" * 1000), BIG], 400),
    "a length of nine digits": ([head(length="9" * 9), BIG], 413),
    "chunks, written with a blank": ([head(headers=f"{JSON}Transfer-Encoding : chunked\r\n"), CHUNKS], 400),
    "chunks that are compressed": (
        [head(length=None, headers=f"{JSON}Transfer-Encoding: gzip, chunked\r\n"), CHUNKS],
        411,
    ),
    "two types": ([head(headers=f"{JSON}Content-Type: text/plain\r\n"), b"{}"], 400),
    "a form": ([head(headers="Content-Type: multipart/form-data; boundary=x\r\n"), b"{}"], 415),
    "a type of brackets": ([head(headers=f"Content-Type: {'(' * 7000}\r\n"), b"{}"], 415),
    "a header with a null": ([head(headers=f"{JSON}A: a\0b\r\n"), b"{}"], 400),
    "a header with a lone line end": ([head(headers=f"{JSON}A: b\rC: d\r\n"), b"{}"], 400),
    "a header of 9 KB": ([head(headers=f"{JSON}A: {'a' * 9000}\r\n"), b"{}"], 400),
    "too many headers": ([head(headers=JSON + "A: b\r\n" * 200), b"{}"], 400),
    "a length and chunks": ([head(headers=f"{JSON}Transfer-Encoding: chunked\r\n"), b"{}"], 400),
    "more after an error": ([head("GET /mutate HTTP/1.1", length=None), BIG, BIG], 405),
}


@pytest.mark.parametrize("misuse", REFUSED)
async def test_what_is_no_review_gets_a_short_answer(server: Running, misuse: str) -> None:
    sent, status = REFUSED[misuse]
    async with streams() as opened:
        opened += [await dial(server, STRANGER) for _ in range(COUNT)]
        saying = [asyncio.create_task(heard(stream, *sent)) for stream in opened]
        for answer in await beside(server, saying):
            # Who says more than he has announced may be cut before he reads it.
            assert answer == b"" or answer.split(b" ")[1] == str(status).encode()
            assert len(answer) < MOST
        assert server.log.getvalue() == b""


@pytest.mark.parametrize(
    "more", ["", '"' * 7000, ";" * 7000, "; a=b" * 1400], ids=["", "quotes", "semicolons", "parameters"]
)
async def test_what_follows_the_type_is_not_parsed(server: Running, more: str) -> None:
    """Python's parser of mail takes a second for 8 KB."""
    async with streams() as opened:
        opened.append(stranger := await dial(server, STRANGER))
        with counted() as calls:
            said = await heard(stranger, head(headers=f"Content-Type: application/json;{more}\r\n"), b"{}", end=ANSWER)
        assert said.startswith(b"HTTP/1.1 200 ")
        assert calls.count < 5_000


UNFINISHED: dict[str, list[bytes]] = {
    "a head one byte at a time": [post()[at : at + 1] for at in range(len(post()) - 2)],
    "a header without an end": [post()[:-2] + b"A: ", b"a" * (MAX_HEAD - 200)],
    "more of a header than a head may have": [post()[:-2] + b"A: ", BIG],
    "empty lines": [b"\r\n" * 100_000],
    "a frame of HTTP/2": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" * 10_000],
    "a handshake within": [HELLO * 100],
    "HTTP/0.9": [b"POST /mutate\r\n\r\n{}"],
    "an empty line first": [b"\r\n\r\n" + post() + b"{}"],
    "lines without a carriage return": [post()[:-2] + b"\n{}"],
}


@pytest.mark.parametrize("misuse", UNFINISHED)
async def test_what_never_becomes_a_request_keeps_nobody_waiting(server: Running, misuse: str) -> None:
    async with streams() as opened:
        opened += [await dial(server, STRANGER) for _ in range(COUNT)]
        saying = [asyncio.create_task(heard(stream, *UNFINISHED[misuse])) for stream in opened]
        opened.append(ours := await dial(server))
        assert [await asked(ours) for _ in range(20)] == [200] * 20
        assert len(server.bodies) == 20, "none of theirs"
        for stranger in saying:
            stranger.cancel()
        assert server.log.getvalue() == b""


ODD: dict[str, list[bytes]] = {
    "HTTP/1.0": [head("POST /mutate HTTP/1.0") + b"{}"],
    "a proxy's path": [head("POST http://localhost/mutate HTTP/1.1") + b"{}"],
    "expecting something else": [head(headers=f"{JSON}Expect: tea\r\n"), b"{}"],
    "an upgrade to h2c": [head(headers=f"{JSON}Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n") + b"{}", BIG],
    "an upgrade to TCP": [head(headers=f"{JSON}Upgrade: tcp\r\nConnection: Upgrade\r\n") + b"{}", BIG],
    "an address of its own choice": [head(headers=f"{JSON}X-Forwarded-For: 127.0.0.1\r\nForwarded: for=1\r\n") + b"{}"],
}


@pytest.mark.parametrize("misuse", ODD)
async def test_an_odd_request_is_answered_once_and_what_follows_is_not_read(server: Running, misuse: str) -> None:
    async with streams() as opened:
        opened += [await dial(server, STRANGER) for _ in range(COUNT)]
        saying = [asyncio.create_task(heard(stream, *ODD[misuse], end=ANSWER)) for stream in opened]
        for answer in await beside(server, saying):
            assert len(answer) < MOST
        assert {*server.bodies} <= {b"{}"}
        assert server.log.getvalue() == b""


@pytest.mark.parametrize(
    "sent", [post()[:-4], post(), post(length=5000) + b"{"], ids=["head", "no body", "half a body"]
)
@pytest.mark.parametrize("reset", [False, True], ids=["its side closed", "reset"])
async def test_a_connection_that_ends_within_a_request_leaves_nothing(sent: bytes, reset: bool) -> None:
    async with running() as server, streams() as opened:
        for _ in range(COUNT):
            opened.append(stranger := await dial(server, STRANGER))
            stranger[1].write(sent)
            await stranger[1].drain()
            if reset:
                linger = struct.pack("ii", 1, 0)
                stranger[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            stranger[1].close()
        opened.append(ours := await dial(server))
        assert await asked(ours) == 200
        await until(lambda: len(server.listener.open) == 1 and server.edge.held.total == 0)
        assert server.bodies == [b"{}"]
        assert server.log.getvalue() == b""


# --- the port of the probes -------------------------------------------------------------------------------------------


def get(path: str = "/metrics", headers: str = "", line: str = "GET %s HTTP/1.1") -> bytes:
    return f"{line % path}\r\nHost: a\r\n{headers}\r\n".encode()


PROBES: dict[str, tuple[list[bytes], bytes]] = {
    "a review": ([post() + b"{}"], b"405"),
    "a GET with a body of 8 MB": ([get("/healthz", headers="Content-Length: 8388608\r\n"), BIG, BIG], b"200"),
    "a GET with chunks": ([get("/healthz", headers="Transfer-Encoding: chunked\r\n"), CHUNKS], b"200"),
    "a header without an end": ([get()[:-2] + b"A: ", BIG], b""),
    "TLS": ([HELLO + b"\r\n\r\n"], b"400"),
    "HEAD": ([get(line="HEAD %s HTTP/1.1")], b"405"),
    "CONNECT": ([get("a:80", line="CONNECT %s HTTP/1.1"), BIG], b"405"),
    "an upgrade": ([get("/healthz", headers="Upgrade: websocket\r\nConnection: Upgrade\r\n"), BIG], b"200"),
    "metrics, 50 times at once": ([get() * 50], b"200"),
    "metrics in gzip": ([get(headers="Accept-Encoding: gzip\r\nRange: bytes=0-1\r\n")], b"200"),
    "a path of 1,900 letters": ([get("/" + "\\" * 1900)], b"404"),
}


@pytest.mark.parametrize("misuse", PROBES)
async def test_probes_are_answered_beside_it(misuse: str, server: Running) -> None:
    probes = Listener(ops(server.metrics, list), server.metrics, Turns(), limit=64)
    port, (sent, status) = await probes.start("127.0.0.1", 0), PROBES[misuse]
    try:
        async with streams() as opened:

            async def open_from(address: str) -> Stream:
                opened.append(stream := await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)))
                return stream

            saying = [asyncio.create_task(heard(await open_from(STRANGER), *sent, end=b"\r\n")) for _ in range(COUNT)]
            while not all(each.done() for each in saying):
                reader, writer = await open_from(API_SERVER)
                writer.write(get("/healthz"))
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
                writer.close()
                await asyncio.sleep(0.05)
            for each in saying:
                answer = each.result()
                assert answer == b"" or answer.split(b" ")[1] == status
                assert len(answer) < 100_000
    finally:
        await probes.stop(1)
    assert server.log.getvalue() == b""


async def test_a_review_whose_client_has_gone_before_its_turn_is_not_decided(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise whoever sends dear bodies and leaves at once keeps the server at work."""
    turn, lines = asyncio.Event(), list[str]()

    async def wait(_: Turns, line: str, work: float, namespace: str = "") -> None:
        lines.append(line)
        if line == f"{STRANGER} /mutate":
            await turn.wait()

    monkeypatch.setattr(Turns, "wait", wait)
    async with streams() as opened:
        opened.append(stranger := await dial(server, STRANGER))
        stranger[1].write(post() + b"[]")
        await until(lambda: f"{STRANGER} /mutate" in lines)
        stranger[1].transport.abort()
        await until(lambda: not server.listener.open)
        turn.set()
        opened.append(ours := await dial(server))
        assert await asked(ours) == 200
        assert server.bodies == [b"{}"]
        assert server.edge.held.total == 0
        assert server.log.getvalue() == b""
