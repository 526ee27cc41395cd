"""Connections, memory and turns are bounded, and peers share them."""

import asyncio

import pytest

from webhook.server import load
from webhook.server.http import cost
from webhook.server.load import SMALL_SECONDS, TURN, Bounded, Held, Turns

MIB = 1 << 20


class Room:
    """What peers hold by name, and the names of what was cut."""

    def __init__(self, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all = Bounded(limit)
        self.named: dict[str, Held] = {}
        self.cut: list[str] = []
        self.now = 0.0
        monkeypatch.setattr(load, "monotonic", lambda: self.now)

    def add(self, name: str, peer: str, size: int = 1) -> None:
        held = self.named.setdefault(name, Held(peer, lambda: self.cut.append(name)))
        before = len(self.cut)
        assert self.all.add(held, size) == len(self.cut) - before

    def answered(self, name: str) -> None:
        self.all.unused(self.named[name])

    def used(self, name: str) -> None:
        self.all.used(self.named[name])


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(3, monkeypatch)


def test_what_was_unused_for_longest_is_cut_whether_it_was_ever_of_use_or_not(room: Room) -> None:
    for name in ("answered", "asks now", "silent"):
        room.add(name, "a")
        room.now += 10
    room.answered("asks now")
    room.now += 10
    room.add("1", "a")
    room.add("2", "a")
    room.now += 5
    room.add("3", "a")
    assert room.cut == ["answered", "silent", "asks now"]


def test_nothing_new_is_cut_for_what_is_idle_even_if_its_peer_holds_most(room: Room) -> None:
    """An API server in a burst holds more than each of many strangers."""
    room.add("idle", "stranger")
    room.answered("idle")
    room.now += 5
    for name in ("1", "2", "3"):
        room.add(name, "api server")
        room.now += 0.1
    assert room.cut == ["idle"]


def test_whoever_takes_more_and_more_takes_it_from_himself(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(100, monkeypatch)
    for number in range(5):
        room.add(f"api server {number}", "a")
        room.now += 0.01
    for number in range(500):
        room.add(f"stranger {number}", "b")
        room.now += 0.001
    assert room.cut == [f"stranger {number}" for number in range(405)]


def test_what_is_in_use_is_never_cut_and_then_the_newest_is(room: Room) -> None:
    for name in ("1", "2", "3"):
        room.add(name, "a")
        room.used(name)
    room.add("4", "b")
    assert room.cut == ["4"]
    room.answered("2")
    room.now += 5
    room.add("5", "b")
    assert room.cut == ["4", "2"]


def test_what_was_removed_does_not_count_and_does_not_come_back(room: Room) -> None:
    room.add("1", "a")
    for _ in range(2):
        room.all.remove(room.named["1"])
    assert room.all.total == 0
    assert not room.all.cut()


@pytest.mark.parametrize("stranger", ["stranger", "api server"], ids=["another address", "that of the API server"])
def test_bytes_count_as_they_arrive_and_the_body_that_waits_for_longest_is_dropped(
    monkeypatch: pytest.MonkeyPatch, stranger: str
) -> None:
    room = Room(64 * MIB, monkeypatch)
    for number in range(10):
        room.add(f"dripping {number}", stranger, 6 * MIB)
    room.now += 0.5
    for _ in range(6):
        room.add("whole", "api server", MIB)
        room.now += 0.01
    assert room.cut == ["dripping 0"]
    assert room.all.total == 60 * MIB


def test_any_number_of_peers_takes_bounded_memory(room: Room) -> None:
    for number in range(1000):
        room.add(str(number), str(number))
    assert len(room.all._sizes) == len(room.all._unused) == 3


async def given(asked: list[tuple[str, float]]) -> list[str]:
    """All ask at once. Returns the lines in the order in which they were given turns."""
    turns, order = Turns(), []

    async def one(line: str, work: float) -> None:
        await turns.wait(line, work)
        order.append(line)

    await asyncio.gather(*(one(line, work) for line, work in asked))
    return order


async def test_a_line_pays_for_what_its_work_costs() -> None:
    order = await given([*[("stranger", 20.0)] * 20, *[("api server", 1.0)] * 50])
    last = max(number for number, line in enumerate(order) if line == "api server")
    assert order[:last].count("stranger") < 8


async def test_in_one_line_the_first_comes_first_and_none_is_passed_because_it_is_larger() -> None:
    for work, other in ((cost(5_000), cost(15_000)), (cost(15_000), cost(5_000))):
        turns, order = Turns(), []

        async def one(number: int, work: float, turns: Turns = turns, order: list[int] = order) -> None:
            await turns.wait("a", work)
            order.append(number)

        await asyncio.gather(*(one(number, other if number == 100 else work) for number in range(200)))
        assert order == list(range(200))


async def test_the_work_in_one_turn_of_the_loop_is_bounded() -> None:
    turns, loops, done = Turns(), 0, []

    async def one() -> None:
        await turns.wait("a", 1)
        done.append(loops)

    working = asyncio.gather(*(one() for _ in range(100)))
    while not working.done():
        loops += 1
        await asyncio.sleep(0)
    assert max(done.count(turn) for turn in done) <= TURN + 1


async def test_ever_new_peers_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each turn of the loop there are more new ones than can be given a turn."""
    monkeypatch.setattr(load, "TURN", 1.0)
    turns, new = Turns(), []

    async def five() -> None:
        for _ in range(5):
            await turns.wait("api server", 1)

    ours = asyncio.create_task(five())
    while not ours.done():
        new += [asyncio.create_task(turns.wait(f"{len(new) + number}", 1)) for number in range(2)]
        await asyncio.sleep(0)
        assert len(new) < 200
    for task in new:
        task.cancel()
    await asyncio.gather(*new, return_exceptions=True)


async def test_a_line_pays_for_work_also_while_it_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection that sends costly bodies, one after the other."""
    monkeypatch.setattr(load, "TURN", 1.0)
    turns, order = Turns(), []

    async def stranger() -> None:
        while True:
            await turns.wait("stranger", 1)
            order.append("stranger")
            turns.spent("stranger", 90 * SMALL_SECONDS, 1)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def ours() -> None:
        await turns.wait("api server", 1)
        order.append("api server")

    asking = asyncio.create_task(stranger())
    await asyncio.gather(*(ours() for _ in range(50)))
    asking.cancel()
    assert order.count("stranger") < 4


async def test_reviews_of_one_namespace_that_take_long_keep_anothers_waiting_for_few() -> None:
    """All come from the API server, to one hook. Each of theirs takes as long as twenty small ones; 50 wait all the time."""
    turns, order = Turns(), []

    async def costly() -> None:
        while True:
            await turns.wait("api server", 1, "costly")
            order.append("costly")
            turns.spent("api server", 20 * SMALL_SECONDS, 1, "costly")
            await asyncio.sleep(0)

    theirs = [asyncio.create_task(costly()) for _ in range(50)]
    found = []
    for _ in range(20):
        while order.count("costly") < 10:  # noqa: ASYNC110  no event tells of it
            await asyncio.sleep(0)
        order.clear()
        for _ in range(3):  # a request is read, parsed and handed on, each in a turn of the loop
            await asyncio.sleep(0)
        await turns.wait("api server", 1, "ours")
        found.append(len(order))
        turns.spent("api server", SMALL_SECONDS, 1, "ours")
    for task in theirs:
        task.cancel()
    await asyncio.gather(*theirs, return_exceptions=True)
    assert max(found) <= 2, found


async def test_what_peers_have_done_is_forgotten() -> None:
    turns = Turns()
    for number in range(100):
        await turns.wait(str(number), 1)
        turns.spent(str(number), 5 * SMALL_SECONDS, 1)
    assert len(turns._lines.done) < 10
    assert turns._parts.keys() <= turns._lines.done.keys()


async def test_those_that_have_gone_take_no_turn() -> None:
    turns = Turns()
    waiting = [asyncio.create_task(turns.wait("a", 1)) for _ in range(50)]
    await asyncio.sleep(0)
    for task in waiting[10:]:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.sleep(0)
    assert not turns._waiting
