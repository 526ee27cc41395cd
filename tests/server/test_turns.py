"""Whose reviews are decided next on a real server. Covers webhook/server/load.py beside test_load.py."""

import asyncio

import orjson
import pytest

from tests.edge import ANSWER, API_SERVER, asked, dial, post, running, streams
from tests.waiting import time_passes, until
from webhook.kube import bounds
from webhook.server import http, load


@pytest.mark.parametrize(
    ("address", "path"),
    [("127.0.7.2", "/mutate"), (API_SERVER, "/validate")],
    ids=["from another address", "of pods that are mutated already"],
)
async def test_a_review_waits_for_few_turns_while_others_wait_for_many(
    address: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 100 that have arrived before it, some are decided after it: the turn is given to each line in turn."""
    monkeypatch.setattr(load, "TURN", 1.0)
    async with running() as server, streams() as opened:
        opened += [await dial(server, address) for _ in range(100)]
        opened.append(ours := await dial(server))
        for _, writer in opened[:-1]:
            writer.write(post(length=8) + b"{others}")
        ours[1].write(post(path, length=6) + b"{ours}")
        for reader, _ in opened:
            assert (await reader.readuntil(ANSWER)).startswith(b"HTTP/1.1 200")
        assert server.bodies.index(b"{ours}") < 90


async def test_large_reviews_wait_in_a_line_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []

    async def wait(_: load.Turns, line: str, work: float, namespace: str = "") -> None:
        lines.append(line)

    monkeypatch.setattr(load.Turns, "wait", wait)
    async with running() as server, streams() as opened:
        opened.append(ours := await dial(server))
        for size in (bounds.SMALL_REVIEW, bounds.SMALL_REVIEW + 1):
            assert await asked(ours, b"x" * size) == 200
    assert lines[1:] == [f"{API_SERVER} /mutate", f"{API_SERVER} /mutate large"]


async def test_reviews_wait_beside_those_of_other_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user wrote does not change which one it is: an API server writes the namespace first, and escapes quotes."""
    seen: list[str] = []

    async def wait(_: load.Turns, line: str, work: float, namespace: str = "") -> None:
        seen.append(namespace)

    monkeypatch.setattr(load.Turns, "wait", wait)
    forged = {"metadata": {"namespace": "other"}}
    bodies = [
        {"request": {"name": 'x","namespace":"other', "namespace": "team", "object": forged}},
        {"request": {"name": "x" * 3000, "object": forged}},
        {"request": {"namespace": ["team"]}},
    ]
    async with running() as server, streams() as opened:
        opened.append(ours := await dial(server))
        for body in bodies:
            assert await asked(ours, orjson.dumps(body)) == 200
    assert seen == ["", "team", "", ""]


async def test_what_goes_at_once_counts_for_its_line() -> None:
    turns, order = load.Turns(), list[str]()

    async def work(line: str) -> None:
        await turns.wait(line, load.TURN)
        order.append(line)

    await asyncio.gather(work("a"), work("a"), work("b"))
    assert order == ["a", "b", "a"]


async def test_a_body_may_wait_for_its_turn_longer_than_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(_: load.Turns, line: str, work: float, namespace: str = "") -> None:
        if line.endswith("/mutate"):
            time_passes(http.BODY_SECONDS)
            await asyncio.sleep(0.01)

    monkeypatch.setattr(load.Turns, "wait", wait)
    async with running() as server, streams() as opened:
        opened.append(ours := await dial(server))
        ours[1].write(post(length=6) + b"{ou")
        await until(lambda: server.edge.held.total == 3)
        ours[1].write(b"rs}")
        assert (await ours[0].readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("address", ["127.0.7.2", API_SERVER])
async def test_few_bodies_that_take_long_are_decided_before_small_ones(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as policies, which take 90 times as long as a pod. None is slow by this clock but those."""
    clock, slow = [0.0], b"{slow}"
    monkeypatch.setattr(load, "TURN", 1.0)
    monkeypatch.setattr(http, "thread_time", lambda: clock[0])

    def decide(body: bytes) -> tuple[int, bytes]:
        clock[0] += 0.12 if body == slow else 0.001
        return 200, ANSWER

    async with running(decide) as server, streams() as opened:
        strangers = [await dial(server, address) for _ in range(50)]
        ours = [await dial(server) for _ in range(50)]
        opened += [*strangers, *ours]
        for _, writer in strangers:
            writer.write(post("/validate", length=6) + slow)
        for _, writer in ours:
            writer.write(post(length=6) + b"{ours}")
        for reader, _ in ours:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        between = server.bodies[server.bodies.index(b"{ours}") :]
        assert between[: between.count(b"{ours}") + 3].count(b"{ours}") == 50


async def test_a_body_whose_turn_comes_too_late_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server repeats it on the same connection. What counts is the work that was done meanwhile."""
    clock = [0.0]
    monkeypatch.setattr(http, "thread_time", lambda: clock[0])

    async def wait(_: load.Turns, line: str, work: float, namespace: str = "") -> None:
        if not line.endswith("handshakes"):
            clock[0] += meanwhile

    monkeypatch.setattr(load.Turns, "wait", wait)
    async with running() as server, streams() as opened:
        opened.append(ours := await dial(server))
        meanwhile = http.LATE_SECONDS + 0.1
        assert await asked(ours) == 503
        assert server.count('shed_total{reason="late"}') == 1
        server.edge.draining = True
        ours[1].write(post() + b"{}")
        assert b"\r\nConnection: close\r\n" in await ours[0].readuntil(b"\r\n\r\n")
        server.edge.draining = False
        opened.append(ours := await dial(server))
        assert server.edge.held.total == 0
        meanwhile = http.LATE_SECONDS - 0.1
        assert await asked(ours) == 200
        assert len(server.bodies) == 1
