"""Which connection is closed when there are too many."""

from __future__ import annotations

from webhook.server.connections import Connection, Connections, Stage


class Room:
    """Connections by name, and the names of those that were closed."""

    def __init__(self, limit: int) -> None:
        self.all = Connections(limit)
        self.named: dict[str, Connection] = {}
        self.closed: list[str] = []
        self.now = 0.0

    def add(self, name: str, peer: str, stage: Stage = Stage.SILENT) -> None:
        self.now += 1
        added = self.named[name] = Connection(peer)
        if evicted := self.all.add(added, self.now):
            self.closed += [each for each, connection in self.named.items() if connection is evicted]
        self.all.move(added, stage, self.now)


def test_silent_connections_are_closed_first_and_the_oldest_before_the_others() -> None:
    room = Room(4)
    for name, stage in (("idle", Stage.IDLE), ("old", Stage.SILENT), ("busy", Stage.BUSY), ("young", Stage.SILENT)):
        room.add(name, "a", stage)
    room.add("1", "a", Stage.IDLE)
    room.add("2", "a", Stage.IDLE)
    assert room.closed == ["old", "young"]
    assert len(room.all) == 4


def test_the_peer_with_most_connections_loses_one() -> None:
    room = Room(4)
    room.add("api server", "a")
    for i in range(5):
        room.add(f"stranger {i}", "b")
    assert room.closed == ["stranger 0", "stranger 1"]


def test_then_the_longest_idle_one_is_closed_and_never_a_busy_one() -> None:
    room = Room(3)
    room.add("busy", "a", Stage.BUSY)
    for i in range(4):
        room.add(f"idle {i}", "a", Stage.IDLE)
    assert room.closed == ["idle 0", "idle 1"]


def test_if_all_are_busy_the_new_one_is_closed() -> None:
    room = Room(2)
    for i in range(3):
        room.add(f"busy {i}", "a", Stage.BUSY)
    assert room.closed == ["busy 2"]
    assert len(room.all) == 2


def test_a_connection_with_a_new_request_counts_as_the_youngest() -> None:
    room = Room(2)
    room.add("first", "a", Stage.IDLE)
    room.add("second", "a", Stage.IDLE)
    room.all.move(room.named["first"], Stage.IDLE, 10)
    room.add("third", "a", Stage.IDLE)
    assert room.closed == ["second"]


def test_a_removed_connection_does_not_come_back() -> None:
    room = Room(2)
    room.add("a", "a")
    room.all.remove(room.named["a"])
    room.all.move(room.named["a"], Stage.BUSY, 1)
    room.all.remove(room.named["a"])
    assert len(room.all) == 0
    assert room.all.evict() is None


def test_silent_connections_are_found_by_their_age() -> None:
    room = Room(9)
    room.add("old", "a")
    room.add("asks", "a", Stage.IDLE)
    room.add("young", "b")
    assert room.all.silent_since(3) == [room.named["old"]]
    assert len(room.all) == 2
