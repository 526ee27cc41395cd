"""Which connection is closed when there are too many."""

from __future__ import annotations

from webhook.server.connections import Connection, Connections, Stage


class Room:
    """Connections by name, and who went."""

    def __init__(self, most: int) -> None:
        self.all = Connections(most)
        self.named: dict[str, Connection] = {}
        self.gone: list[str] = []
        self.now = 0.0

    def came(self, name: str, peer: str, stage: Stage = Stage.SILENT) -> None:
        self.now += 1
        made = self.named[name] = Connection(peer, lambda: None)
        if gone := self.all.add(made, self.now):
            self.gone += [each for each, known in self.named.items() if known is gone]
        self.all.move(made, stage, self.now)


def test_the_silent_go_first_the_oldest_before_the_others() -> None:
    room = Room(4)
    for name, stage in (("idle", Stage.IDLE), ("old", Stage.SILENT), ("busy", Stage.BUSY), ("young", Stage.SILENT)):
        room.came(name, "a", stage)
    room.came("1", "a", Stage.IDLE)
    room.came("2", "a", Stage.IDLE)
    assert room.gone == ["old", "young"]
    assert len(room.all) == 4


def test_of_several_peers_the_one_with_most_loses_one() -> None:
    room = Room(4)
    room.came("api server", "a")
    for i in range(5):
        room.came(f"stranger {i}", "b")
    assert room.gone == ["stranger 0", "stranger 1"]


def test_after_them_the_longest_idle_goes_and_never_a_busy_one() -> None:
    room = Room(3)
    room.came("busy", "a", Stage.BUSY)
    for i in range(4):
        room.came(f"idle {i}", "a", Stage.IDLE)
    assert room.gone == ["idle 0", "idle 1"]


def test_where_all_are_busy_the_new_one_goes() -> None:
    room = Room(2)
    for i in range(3):
        room.came(f"busy {i}", "a", Stage.BUSY)
    assert room.gone == ["busy 2"]
    assert len(room.all) == 2


def test_a_connection_with_a_new_request_counts_as_the_youngest() -> None:
    room = Room(2)
    room.came("first", "a", Stage.IDLE)
    room.came("second", "a", Stage.IDLE)
    room.all.move(room.named["first"], Stage.IDLE, 10)
    room.came("third", "a", Stage.IDLE)
    assert room.gone == ["second"]


def test_a_removed_connection_does_not_come_back() -> None:
    room = Room(2)
    room.came("a", "a")
    room.all.remove(room.named["a"])
    room.all.move(room.named["a"], Stage.BUSY, 1)
    room.all.remove(room.named["a"])
    assert len(room.all) == 0
    assert room.all.spare() is None


def test_the_silent_ones_are_found_by_their_age() -> None:
    room = Room(9)
    room.came("old", "a")
    room.came("asks", "a", Stage.IDLE)
    room.came("young", "b")
    assert room.all.silent_since(3) == [room.named["old"]]
    assert len(room.all) == 2
