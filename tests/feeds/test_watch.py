"""The loop against an API server that fails in every way it can: afterwards our objects must equal its objects.

Covers feeds.tasks.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from tests.feeds.fake_api import FakeApi, client_of, fake_api
from webhook.feeds import tasks as tasks_module
from webhook.feeds import watch
from webhook.feeds.tasks import Backoff, Tasks
from webhook.feeds.watch import Feed, Sink
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

NODES = "/api/v1/nodes"


class Mirror(Sink):
    """A sink that only remembers."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.heard_times = 0
        self.lists = 0
        self.arrived: list[str] = []

    def list_begins(self) -> None:
        self._coming: set[str] = set()

    def in_list(self, obj: dict[str, Any]) -> None:
        self._coming.add(obj["metadata"]["name"])

    def list_ends(self) -> None:
        self.names, self.lists = self._coming, self.lists + 1

    def seen(self, obj: dict[str, Any]) -> None:
        if obj["metadata"]["name"] == "poison":
            raise KeyError("a secret of a tenant")
        self.arrived.append(obj["metadata"]["resourceVersion"])
        self.names.add(obj["metadata"]["name"])

    def gone(self, obj: dict[str, Any]) -> None:
        self.names.discard(obj["metadata"]["name"])

    def heard(self) -> None:
        self.heard_times += 1


@dataclass
class Scene:
    api: FakeApi
    mirror: Mirror
    metrics: Metrics
    log: io.BytesIO = field(default_factory=io.BytesIO)

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not true():  # noqa: ASYNC110  what is waited for has no event
                await asyncio.sleep(0.005)

    async def agreed(self) -> None:
        await self.until(lambda: self.mirror.lists and self.mirror.names == set(self.api.objects[NODES]))

    async def watching(self, times: int = 1) -> None:
        await self.until(lambda: len(self.api.asked("watch", NODES)) >= times)

    def events(self) -> list[str]:
        return [orjson.loads(line)["event"] for line in self.log.getvalue().splitlines()]


@asynccontextmanager
async def scene(**options: Any) -> AsyncIterator[Scene]:
    async with fake_api() as fake, client_of(fake) as api:
        found = Scene(fake, Mirror(), Metrics())
        log = logs.configure(found.log)
        feed = Feed(api, "nodes", NODES, found.mirror, found.metrics, log, **options)
        for i in range(5):
            fake.put(NODES, f"n{i}")
        async with Tasks(found.metrics, log) as tasks:
            tasks.start("feed", feed.run)
            yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses are real, only short."""
    monkeypatch.setattr(Backoff.__init__, "__defaults__", (0.01,))
    monkeypatch.setattr(tasks_module, "MAX_PAUSE", 0.05)


async def test_listed_and_changed_objects_are_mirrored() -> None:
    async with scene() as it:
        await it.agreed()
        it.api.put(NODES, "n9")
        it.api.delete(NODES, "n0")
        await it.agreed()
        assert it.mirror.names == {"n1", "n2", "n3", "n4", "n9"}
        assert it.mirror.lists == 1


async def test_a_long_list_comes_in_pages_of_one_moment() -> None:
    async with scene(page=2) as it:
        await it.agreed()
        assert [q.get("continue") for q in it.api.asked("list", NODES)] == [None, "2", "4"]
        assert it.mirror.lists == 1


async def test_a_watch_asks_for_bookmarks_and_an_end_and_only_for_what_is_new() -> None:
    async with scene(fields="metadata.name=n3") as it:
        await it.watching()
        query = it.api.asked("watch", NODES)[0]
        assert query["allowWatchBookmarks"] == "true"
        assert 0 < int(query["timeoutSeconds"]) <= watch.WATCH_SECONDS
        assert query["resourceVersion"] == "5"
        assert query["fieldSelector"] == "metadata.name=n3"
        assert it.mirror.names == {"n3"}


async def test_a_cut_watch_goes_on_where_it_was_and_misses_nothing() -> None:
    async with scene() as it:
        await it.agreed()
        await it.watching()
        it.api.put(NODES, "n8")
        await it.agreed()
        it.api.cut()
        it.api.delete(NODES, "n1")
        it.api.put(NODES, "n9")
        await it.agreed()
        assert it.mirror.lists == 1
        assert it.mirror.arrived == ["6", "8"], "nothing is seen twice"


@pytest.mark.parametrize("how", ["the status of the answer", "an event of the watch"])
async def test_lost_history_is_listed_again_and_deletions_in_the_gap_are_noticed(how: str) -> None:
    async with scene() as it:
        await it.agreed()
        await it.watching()
        it.api.silent = True
        it.api.delete(NODES, "n2")
        if how == "an event of the watch":
            it.api.error_event(NODES, 410)
        else:
            it.api.forget()
            it.api.cut()
        await it.agreed()
        assert it.mirror.lists == 2


async def test_a_bookmark_moves_the_version_so_that_a_quiet_watch_does_not_grow_old() -> None:
    async with scene() as it:
        await it.watching()
        it.api.bookmark(NODES)
        await it.until(lambda: it.mirror.heard_times >= 2)
        it.api.forget()
        it.api.cut()
        await it.watching(2)
        assert it.api.asked("watch", NODES)[1]["resourceVersion"] == "6"
        assert it.mirror.lists == 1


async def test_a_watch_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SILENCE_SECONDS", 0.1)
    async with scene() as it:
        await it.agreed()
        await it.watching(3)
        it.api.put(NODES, "n9")
        await it.agreed()


async def test_an_api_server_that_is_away_is_asked_again_and_told_of_once() -> None:
    async with scene() as it:
        await it.agreed()
        for verb in ("list", "watch"):
            it.api.refuse[verb, NODES] = (503, "shutting down")
        it.api.cut()
        await it.watching(5)
        it.api.refuse.clear()
        it.api.put(NODES, "n9")
        await it.agreed()
        assert it.events() == ["feed failed", "feed works again"]


async def test_a_right_that_is_missing_is_named_in_the_log() -> None:
    async with fake_api() as fake, client_of(fake) as api:
        found = Scene(fake, Mirror(), Metrics())
        fake.refuse["list", NODES] = (403, "nodes is forbidden: User cannot list")
        async with Tasks(found.metrics, logs.configure(found.log)) as tasks:
            tasks.start("feed", Feed(api, "nodes", NODES, found.mirror, found.metrics, logs.configure(found.log)).run)
            await found.until(lambda: len(fake.asked("list", NODES)) > 2)
        (line,) = found.log.getvalue().splitlines()
        assert orjson.loads(line)["why"] == 'GET /api/v1/nodes: 403: "nodes is forbidden: User cannot list"'


@pytest.mark.parametrize("status", [400, 504], ids=["not a version of this server", "a version of the future"])
async def test_a_server_that_came_back_from_a_backup_is_listed_again(status: int) -> None:
    async with scene() as it:
        await it.agreed()
        await it.watching()
        it.api.refuse["watch", NODES] = (status, "Too large resource version")
        it.api.cut()
        await it.until(lambda: it.mirror.lists >= 2)


async def test_an_object_that_we_cannot_read_costs_no_other_and_its_text_is_not_logged() -> None:
    async with scene() as it:
        await it.watching()
        it.api.put(NODES, "poison")
        it.api.put(NODES, "n9")
        await it.until(lambda: "n9" in it.mirror.names)
        assert it.mirror.lists == 1
        (line,) = it.log.getvalue().splitlines()
        assert b"uid-poison" in line
        assert b"secret" not in line
        assert b'gpu_admission_feed_errors_total{feed="nodes"} 1.0' in it.metrics.text()


async def test_a_server_that_ends_every_watch_at_once_is_not_asked_all_the_time() -> None:
    async with scene() as it:
        it.api.watch_ends_at_once = True
        it.api.cut()
        await it.agreed()
        before = len(it.api.asked("watch", NODES))
        await asyncio.sleep(0.3)
        assert len(it.api.asked("watch", NODES)) - before < 30


async def test_an_event_larger_than_any_buffer_arrives() -> None:
    async with scene() as it:
        await it.watching()
        it.api.put(NODES, "large", data="x" * 3_000_000)
        await it.agreed()


async def test_a_watch_that_is_alive_is_heard() -> None:
    async with scene() as it:
        await it.watching()
        await it.until(lambda: it.mirror.heard_times == 1)
        it.api.bookmark(NODES)
        await it.until(lambda: it.mirror.heard_times == 2)
