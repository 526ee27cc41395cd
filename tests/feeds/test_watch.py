"""A feed of an API server that fails in many ways. Afterwards the sink must have the same objects as the server."""

import asyncio
import io
from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from tests.feeds.fake_api import FakeApi, client_of, fake_api
from tests.waiting import until
from webhook.feeds import watch
from webhook.feeds.tasks import Tasks
from webhook.feeds.watch import Feed, Sink, Watches
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

NODES = "/api/v1/nodes"


class Mirror(Sink):
    """A sink that keeps the names of the objects."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.heard_times = 0
        self.lists = 0
        self.arrived: list[str] = []

    def key(self, obj: dict[str, Any]) -> str:
        return str(obj["metadata"]["name"])

    def complete(self, keys: Set[Any]) -> None:
        self.names, self.lists = {*keys}, self.lists + 1

    def seen(self, obj: dict[str, Any], *, listed: bool = False) -> None:
        if obj["metadata"]["name"] == "poison":
            raise KeyError("a secret of a tenant")
        if not listed:
            self.arrived.append(obj["metadata"]["resourceVersion"])
        self.names.add(obj["metadata"]["name"])

    def gone(self, obj: dict[str, Any]) -> None:
        self.names.discard(obj["metadata"]["name"])

    def heard(self) -> None:
        self.heard_times += 1

    def refused(self) -> None:
        self.names = set()


@dataclass
class Scene:
    api: FakeApi
    mirror: Mirror
    metrics: Metrics
    log: io.BytesIO = field(default_factory=io.BytesIO)

    async def agreed(self) -> None:
        await until(lambda: self.mirror.lists and self.mirror.names == set(self.api.objects[NODES]))

    async def watching(self, times: int = 1) -> None:
        await until(lambda: len(self.api.asked("watch", NODES)) >= times)

    def events(self) -> list[str]:
        return [orjson.loads(line)["event"] for line in self.log.getvalue().splitlines()]


@asynccontextmanager
async def started(**options: Any) -> AsyncIterator[Scene]:
    async with fake_api() as fake, client_of(fake) as api:
        scene = Scene(fake, Mirror(), Metrics())
        log = logs.configure(scene.log)
        feed = Feed(api, "nodes", NODES, scene.mirror, scene.metrics, log, **options)
        for i in range(5):
            fake.put(NODES, f"n{i}")
        async with Tasks(scene.metrics, log) as tasks:
            tasks.start("feed", feed.run)
            yield scene


async def test_listed_and_changed_objects_are_mirrored() -> None:
    async with started() as scene:
        await scene.agreed()
        scene.api.put(NODES, "n9")
        scene.api.delete(NODES, "n0")
        await scene.agreed()
        assert scene.mirror.names == {"n1", "n2", "n3", "n4", "n9"}
        assert scene.mirror.lists == 1


async def test_a_long_list_is_read_in_pages() -> None:
    async with started(page=2) as scene:
        await scene.agreed()
        assert [q.get("continue") for q in scene.api.asked("list", NODES)] == [None, "2", "4"]
        assert scene.mirror.lists == 1


async def test_each_page_of_a_list_has_the_selectors() -> None:
    async with started(page=2, labels="a=b") as scene:
        await scene.agreed()
        assert [q["labelSelector"] for q in scene.api.asked("list", NODES)] == ["a=b"] * 3


async def test_a_watch_asks_for_bookmarks_a_timeout_and_changes_since_the_list() -> None:
    async with started(fields="metadata.name=n3") as scene:
        await scene.watching()
        query = scene.api.asked("watch", NODES)[0]
        assert query["allowWatchBookmarks"] == "true"
        assert 0 < int(query["timeoutSeconds"]) <= watch.WATCH_SECONDS
        assert query["resourceVersion"] == "5"
        assert query["fieldSelector"] == "metadata.name=n3"
        assert scene.mirror.names == {"n3"}


async def test_a_watch_that_breaks_off_continues_without_a_gap() -> None:
    async with started() as scene:
        await scene.agreed()
        await scene.watching()
        scene.api.put(NODES, "n8")
        await scene.agreed()
        scene.api.cut()
        scene.api.delete(NODES, "n1")
        scene.api.put(NODES, "n9")
        await scene.agreed()
        assert scene.mirror.lists == 1
        assert scene.mirror.arrived == ["6", "8"], "nothing is seen twice"


@pytest.mark.parametrize("how", ["the status of the answer", "an event of the watch"])
async def test_after_lost_events_objects_are_listed_again_and_deletions_are_noticed(how: str) -> None:
    async with started() as scene:
        await scene.agreed()
        await scene.watching()
        scene.api.silent = True
        scene.api.delete(NODES, "n2")
        if how == "an event of the watch":
            scene.api.error_event(NODES, 410)
        else:
            scene.api.forget()
            scene.api.cut()
        await scene.agreed()
        assert scene.mirror.lists == 2


async def test_a_bookmark_advances_the_version_of_a_quiet_watch() -> None:
    async with started() as scene:
        await scene.watching()
        scene.api.bookmark(NODES)
        await until(lambda: scene.mirror.heard_times >= 2)
        assert len(scene.api.asked("watch", NODES)) == 1
        scene.api.forget()
        scene.api.cut()
        await scene.watching(2)
        assert scene.api.asked("watch", NODES)[1]["resourceVersion"] == "6"
        assert scene.mirror.lists == 1


async def test_an_unavailable_api_server_is_asked_again_and_logged_once() -> None:
    async with started() as scene:
        await scene.agreed()
        for verb in ("list", "watch"):
            scene.api.refuse[verb, NODES] = (503, "shutting down")
        scene.api.cut()
        await scene.watching(5)
        scene.api.refuse.clear()
        scene.api.put(NODES, "n9")
        await scene.agreed()
        assert scene.events() == ["feed failed", "feed works again"]


async def test_a_missing_permission_is_logged() -> None:
    async with fake_api() as fake, client_of(fake) as api:
        scene = Scene(fake, Mirror(), Metrics())
        fake.refuse["list", NODES] = (403, "nodes is forbidden: User cannot list")
        async with Tasks(scene.metrics, logs.configure(scene.log)) as tasks:
            tasks.start("feed", Feed(api, "nodes", NODES, scene.mirror, scene.metrics, logs.configure(scene.log)).run)
            await until(lambda: len(fake.asked("list", NODES)) > 2)
        (line,) = scene.log.getvalue().splitlines()
        assert orjson.loads(line)["why"] == 'GET /api/v1/nodes: 403: "nodes is forbidden: User cannot list"'


@pytest.mark.parametrize("status", [403, 404])
async def test_an_optional_kind_that_is_refused_for_a_while_is_listed_again(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "OPTIONAL_PAUSE", 0.0)
    async with started(optional=True) as scene:
        await scene.watching()
        scene.api.refuse["watch", NODES] = (status, "no")
        scene.api.cut()
        await until(lambda: not scene.mirror.names)
        scene.api.refuse.clear()
        await scene.agreed()


@pytest.mark.parametrize(
    "status", [pytest.param(400, id="an unknown version"), pytest.param(504, id="a version that is too new")]
)
async def test_a_server_that_was_restored_from_a_backup_is_listed_again(status: int) -> None:
    async with started() as scene:
        await scene.agreed()
        await scene.watching()
        scene.api.refuse["watch", NODES] = (status, "Too large resource version")
        scene.api.cut()
        await until(lambda: scene.mirror.lists >= 2)


async def test_a_malformed_object_does_not_stop_the_others_and_its_text_is_not_logged() -> None:
    async with started() as scene:
        await scene.watching()
        scene.api.put(NODES, "poison")
        scene.api.put(NODES, "n9")
        await until(lambda: "n9" in scene.mirror.names)
        assert scene.mirror.lists == 1
        (line,) = scene.log.getvalue().splitlines()
        assert b"uid-poison" in line
        assert b"secret" not in line
        assert b'gpu_admission_feed_errors_total{feed="nodes"} 1.0' in scene.metrics.text()


async def test_a_server_that_ends_every_watch_at_once_is_asked_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    async def paused(backoff: watch.Backoff) -> None:
        asked.append(len(scene.api.asked("watch", NODES)))
        await asyncio.sleep(0)

    async with started() as scene:
        await scene.watching()
        monkeypatch.setattr(watch.Backoff, "pause", paused)
        scene.api.watch_ends_at_once = True
        scene.api.cut()
        await until(lambda: len(asked) > 5)
    assert asked == [*range(asked[0], asked[0] + len(asked))], "a pause after each watch"


async def test_an_event_larger_than_the_buffers_arrives() -> None:
    async with started() as scene:
        await scene.watching()
        scene.api.put(NODES, "large", data="x" * 3_000_000)
        await scene.agreed()


BOUND = 60.0


async def test_a_feed_tells_of_each_answer() -> None:
    now = [1000.0]
    watches = Watches(["nodes"], BOUND, lambda: now[0])

    def others(times: int) -> None:
        for _ in range(times):
            now[0] += BOUND / 2
            watches.answered("another")

    async with started(watches=watches) as scene:
        await scene.watching()
        others(3)
        assert watches.stuck() == ["nodes"]
        scene.api.put(NODES, "n9")
        await until(lambda: watches.stuck() == [])
        scene.api.refuse["watch", NODES] = scene.api.refuse["list", NODES] = 403, "no"
        scene.api.cut()
        asked = len(scene.api.requests)
        await until(lambda: len(scene.api.requests) > asked + 2)
        others(3)
        assert watches.stuck() == ["nodes"]
        scene.api.refuse.clear()
        await until(lambda: watches.stuck() == [])
