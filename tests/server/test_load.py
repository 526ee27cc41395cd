"""Slow transfers and waiting requests are bounded, and peers share the bounds."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from webhook.server.load import MIN_BYTES, Busy, Queue, Transfers, cost

MIB = 1 << 20


class Held:
    """Transfers, and the names of those that were dropped."""

    def __init__(self, limit: int = 64 * MIB) -> None:
        self.now = 0.0
        self.transfers = Transfers(limit, lambda: self.now)
        self.dropped: list[str] = []

    def begin(self, peer: str, size: int, name: str = "") -> Any:
        return self.transfers.begin(peer, size, lambda: self.dropped.append(name or peer))


def test_one_peer_may_hold_all_memory() -> None:
    held = Held()
    for _ in range(10):
        held.begin("load balancer", 6 * MIB)
    assert held.dropped == []


def test_a_small_body_counts_with_its_buffers_and_its_end_releases_them() -> None:
    held = Held()
    slow = held.begin("a", 2)
    assert held.transfers.total == MIN_BYTES
    held.transfers.end(slow)
    held.transfers.end(slow)
    assert held.transfers.total == 0


@pytest.mark.parametrize("order", [["dripping", "fast"], ["fast", "dripping"]], ids=" then ".join)
def test_the_slowest_body_of_the_peer_that_holds_most_is_dropped(order: list[str]) -> None:
    held = Held(30 * MIB)
    bodies = {}
    for name in order:
        bodies[name] = held.begin("stranger", 10 * MIB, name)
        held.now += 0.2
    for _ in range(10):
        held.transfers.progress(bodies["dripping"], 1)
        held.transfers.progress(bodies["fast"], MIB)
        held.now += 0.1
    held.begin("api server", 6 * MIB)
    held.begin("api server", 6 * MIB)
    assert held.dropped == ["dripping"]


def test_a_body_that_has_just_begun_is_not_the_slowest() -> None:
    held = Held(30 * MIB)
    dripping = held.begin("one", 20 * MIB, "dripping")
    held.now += 1
    held.transfers.progress(dripping, MIB)
    held.begin("one", 20 * MIB, "new")
    assert held.dropped == ["dripping"]


def test_of_one_address_the_oldest_body_is_dropped_first() -> None:
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
        held.transfers.progress(slow, MIB)
    held.begin("api server", 4 * MIB)
    assert held.dropped == ["stranger"]


async def test_a_request_is_decided_at_once_if_none_waits() -> None:
    done: list[int] = []
    queue = Queue()
    for i in range(3):
        await queue.decide("a", cost(100), lambda i=i: done.append(i))  # type: ignore[misc]
    assert done == [0, 1, 2]


async def ask(queue: Queue, asked: list[tuple[str, float]]) -> tuple[list[str], list[str]]:
    """Make all requests in one turn of the loop. Returns the peers that were decided, in order, and those that were refused."""
    decided: list[str] = []
    refused: list[str] = []

    async def one(peer: str, seconds: float) -> None:
        try:
            await queue.decide(peer, seconds, lambda: decided.append(peer))
        except Busy:
            refused.append(peer)

    await asyncio.gather(*(one(peer, seconds) for peer, seconds in asked))
    return decided, refused


async def test_of_a_thousand_requests_at_once_some_are_refused() -> None:
    decided, refused = await ask(Queue(limit=0.5, turn=1e-9), [("a", 0.001)] * 1000)
    assert 450 <= len(decided) <= 502
    assert len(decided) + len(refused) == 1000


async def test_large_requests_count_for_more() -> None:
    decided, refused = await ask(Queue(limit=0.5, turn=1e-9), [("a", cost(MIB))] * 100)
    assert len(decided) == 8
    assert len(refused) == 92


async def test_a_request_of_any_size_is_accepted_if_none_waits() -> None:
    assert await ask(Queue(limit=0.1, turn=1e-9), [("a", 0.001), ("a", 5.0)]) == (["a", "a"], [])


async def test_peers_take_turns_whatever_the_order_of_arrival() -> None:
    decided, refused = await ask(
        Queue(limit=0.5, turn=1e-9), [*[("stranger", 0.001)] * 400, *[("api server", 0.001)] * 50]
    )
    assert refused == []
    assert max(i for i, peer in enumerate(decided) if peer == "api server") < 200


async def test_a_request_of_the_peer_with_most_waiting_work_is_removed() -> None:
    decided, refused = await ask(
        Queue(limit=0.5, turn=1e-9), [*[("stranger", 0.001)] * 600, *[("api server", 0.001)] * 200]
    )
    assert decided.count("api server") == 200
    assert set(refused) == {"stranger"}


async def test_of_one_address_large_requests_make_room_for_small_ones() -> None:
    decided: list[float] = []
    refused: list[float] = []
    queue = Queue(limit=0.5, turn=1e-9)

    async def one(seconds: float) -> None:
        try:
            await queue.decide("a", seconds, lambda: decided.append(seconds))
        except Busy:
            refused.append(seconds)

    await asyncio.gather(*(one(0.12) for _ in range(6)), *(one(0.001) for _ in range(100)))
    assert decided.count(0.001) == 100
    assert set(refused) == {0.12}


async def test_the_work_in_one_turn_of_the_loop_is_bounded() -> None:
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
