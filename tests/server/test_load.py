"""Slow bodies and waiting requests are bounded, and the bounds are shared among peers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from webhook.server.load import MIN_BYTES, Busy, Bytes, Queue, cost

MIB = 1 << 20


class Held:
    """Bytes, and who was dropped."""

    def __init__(self, limit: int = 64 * MIB) -> None:
        self.now = 0.0
        self.bytes = Bytes(limit, lambda: self.now)
        self.dropped: list[str] = []

    def begin(self, peer: str, size: int, name: str = "") -> Any:
        return self.bytes.begin(peer, size, lambda: self.dropped.append(name or peer))


def test_one_peer_may_have_all() -> None:
    held = Held()
    for _ in range(10):
        held.begin("load balancer", 6 * MIB)
    assert held.dropped == []


def test_a_small_body_counts_with_its_buffers_and_all_is_given_back() -> None:
    held = Held()
    slow = held.begin("a", 2)
    assert held.bytes.total == MIN_BYTES
    held.bytes.end(slow)
    held.bytes.end(slow)
    assert held.bytes.total == 0


@pytest.mark.parametrize("order", [["dripping", "fast"], ["fast", "dripping"]], ids=" then ".join)
def test_the_peer_with_most_makes_room_and_of_its_own_the_slowest(order: list[str]) -> None:
    held = Held(30 * MIB)
    bodies = {}
    for name in order:
        bodies[name] = held.begin("stranger", 10 * MIB, name)
        held.now += 0.2
    for _ in range(10):
        held.bytes.arrived(bodies["dripping"], 1)
        held.bytes.arrived(bodies["fast"], MIB)
        held.now += 0.1
    held.begin("api server", 6 * MIB)
    held.begin("api server", 6 * MIB)
    assert held.dropped == ["dripping"]


def test_a_body_that_has_just_begun_is_not_the_slowest() -> None:
    held = Held(30 * MIB)
    dripping = held.begin("one", 20 * MIB, "dripping")
    held.now += 1
    held.bytes.arrived(dripping, MIB)
    held.begin("one", 20 * MIB, "new")
    assert held.dropped == ["dripping"]


def test_of_one_address_the_oldest_body_goes_first() -> None:
    held = Held(30 * MIB)
    for _ in range(3):
        held.begin("one", 8 * MIB, "stuck")
    for _ in range(3):
        held.begin("one", 6 * MIB, "fresh")
    assert held.dropped == ["stuck"] * 2


def test_a_body_of_unknown_size_counts_as_it_grows() -> None:
    held = Held(8 * MIB)
    slow = held.begin("stranger", 0)
    for _ in range(8):
        held.bytes.arrived(slow, MIB)
    held.begin("api server", 4 * MIB)
    assert held.dropped == ["stranger"]


async def test_while_little_waits_a_request_is_decided_at_once() -> None:
    done: list[int] = []
    queue = Queue()
    for i in range(3):
        await queue.decide("a", cost(100), lambda i=i: done.append(i))  # type: ignore[misc]
    assert done == [0, 1, 2]


async def ask(queue: Queue, asked: list[tuple[str, float]]) -> tuple[list[str], list[str]]:
    """All in one turn of the loop: who was decided, in order, and who was sent away."""
    decided: list[str] = []
    away: list[str] = []

    async def one(peer: str, seconds: float) -> None:
        try:
            await queue.decide(peer, seconds, lambda: decided.append(peer))
        except Busy:
            away.append(peer)

    await asyncio.gather(*(one(peer, seconds) for peer, seconds in asked))
    return decided, away


async def test_a_thousand_at_once_are_not_all_taken_in() -> None:
    decided, away = await ask(Queue(limit=0.5, turn=1e-9), [("a", 0.001)] * 1000)
    assert 450 <= len(decided) <= 502
    assert len(decided) + len(away) == 1000


async def test_large_ones_count_for_more() -> None:
    decided, away = await ask(Queue(limit=0.5, turn=1e-9), [("a", cost(MIB))] * 100)
    assert len(decided) == 8
    assert len(away) == 92


async def test_the_largest_is_taken_where_nothing_else_waits() -> None:
    assert await ask(Queue(limit=0.1, turn=1e-9), [("a", 0.001), ("a", 5.0)]) == (["a", "a"], [])


async def test_peers_take_turns_in_any_order_of_arrival() -> None:
    decided, away = await ask(
        Queue(limit=0.5, turn=1e-9), [*[("stranger", 0.001)] * 400, *[("api server", 0.001)] * 50]
    )
    assert away == []
    assert max(i for i, peer in enumerate(decided) if peer == "api server") < 200


async def test_the_peer_with_most_requests_waiting_makes_room() -> None:
    decided, away = await ask(
        Queue(limit=0.5, turn=1e-9), [*[("stranger", 0.001)] * 600, *[("api server", 0.001)] * 200]
    )
    assert decided.count("api server") == 200
    assert set(away) == {"stranger"}


async def test_of_one_address_large_ones_make_room_for_small_ones() -> None:
    decided: list[float] = []
    away: list[float] = []
    queue = Queue(limit=0.5, turn=1e-9)

    async def one(seconds: float) -> None:
        try:
            await queue.decide("a", seconds, lambda: decided.append(seconds))
        except Busy:
            away.append(seconds)

    await asyncio.gather(*(one(0.12) for _ in range(6)), *(one(0.001) for _ in range(100)))
    assert decided.count(0.001) == 100
    assert set(away) == {0.12}


async def test_in_each_turn_of_the_loop_only_so_much_is_decided() -> None:
    turns = [0]
    decided: list[int] = []

    async def count() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    queue = Queue(limit=0.5, turn=1e-9)
    await asyncio.gather(*(queue.decide("a", 0.001, lambda: decided.append(turns[0])) for _ in range(50)))
    counting.cancel()
    with suppress(asyncio.CancelledError):
        await counting
    assert max(decided.count(turn) for turn in decided) <= 2


@pytest.mark.parametrize("size", [0, 10_000, 8 * MIB])
def test_the_expected_cost_of_a_body_grows_with_its_size(size: int) -> None:
    assert 0.0005 <= cost(size) <= 0.51
