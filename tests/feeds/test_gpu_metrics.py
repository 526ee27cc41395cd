"""The polling loop: no error ends it, it waits longer after each failure, and it withdraws stale metrics.

Covers feeds.gpu_source.
"""

from __future__ import annotations

import asyncio
import io
from typing import Any

import orjson
import pytest
import structlog

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import UNKNOWN, NodeUse, Reading, Utilisation
from webhook.feeds.gpu_metrics import GpuMetricsFeed
from webhook.feeds.gpu_source import SourceFailed
from webhook.telemetry import logs

SETTINGS = GpuMetricsSettings(source="dcgm")
END = "no more polls"


class Scripted:
    """A source with a list of answers: a number is the utilisation of a GPU, and an exception is raised."""

    def __init__(self, *script: float | BaseException) -> None:
        self._script = list(script)
        self.silent: dict[str, str] = {}

    async def poll(self, into: Utilisation) -> dict[str, str]:
        if not self._script:
            raise asyncio.CancelledError(END)
        step = self._script.pop(0)
        into.add("a", "0", Reading.UTILISATION, 99.0 if isinstance(step, BaseException) else step)
        if isinstance(step, BaseException):
            raise step
        return self.silent


class World:
    """A feed whose clock moves when it waits, with everything that it reports."""

    def __init__(self, *script: float | BaseException, settings: GpuMetricsSettings = SETTINGS) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        self.reported: list[tuple[str, NodeUse]] = []
        self.out = io.BytesIO()
        self.polls = {"succeeded": 0, "failed": 0}
        self.sink = Utilisation(settings)
        self.feed = GpuMetricsFeed(
            settings,
            Scripted(*script),
            self.sink,
            lambda name, use: self.reported.append((name, use)),
            self.polls,
            log=logs.configure(self.out),
            clock=lambda: self.now,
            pause=self.pause,
            jitter=lambda low, high: high,
        )

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def play(self) -> None:
        with pytest.raises(asyncio.CancelledError, match=END):
            await self.feed.run()

    @property
    def lines(self) -> list[Any]:
        return [orjson.loads(line) for line in self.out.getvalue().splitlines()]


@pytest.fixture(autouse=True)
def plain_logs() -> Any:
    yield
    structlog.reset_defaults()


FAILED = SourceFailed("it answered 503; wanted 200")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(FAILED, id="an unusable answer"),
        pytest.param(TimeoutError(), id="no answer in time"),
        pytest.param(ConnectionRefusedError("nobody there"), id="no server"),
        pytest.param(ZeroDivisionError("a bug"), id="a bug"),
    ],
)
async def test_a_failed_poll_changes_nothing_and_the_next_one_succeeds(error: BaseException) -> None:
    world = World(10.0, error, 10.0)
    await world.play()
    assert [use.idle for _, use in world.reported] == [1], "the samples of the failed poll, 99 %, are not used"
    assert world.polls == {"succeeded": 2, "failed": 1}


async def test_it_waits_longer_after_each_failure_but_never_longer_than_the_interval() -> None:
    world = World(*[FAILED] * 8, 10.0, FAILED)
    await world.play()
    assert world.pauses == [1, 2, 4, 8, 16, 30, 30, 30, 33, 1]


async def test_replicas_that_start_together_drift_apart() -> None:
    world = World(10.0, 10.0, FAILED)
    world.feed._jitter = lambda low, high: low
    await world.play()
    assert world.pauses == [27, 27, 0.5]


async def test_stale_metrics_are_withdrawn_while_the_source_does_not_answer() -> None:
    world = World(10.0, *[FAILED] * 12)
    await world.play()
    assert [(name, use.measured) for name, use in world.reported] == [("a", 1), ("a", 0)]
    assert world.reported[-1] == ("a", UNKNOWN)
    assert world.sink.status(world.now).reason == "GPU metrics are stale"


async def test_a_failure_is_one_line_and_so_is_the_recovery() -> None:
    world = World(FAILED, FAILED, FAILED, 10.0, 10.0)
    await world.play()
    assert [(line["level"], line["event"]) for line in world.lines] == [
        ("warning", "GPU metrics cannot be read; nodes are ranked by allocation once they are stale"),
        ("info", "GPU metrics are read again"),
    ]
    assert world.lines[0]["why"] == "SourceFailed: it answered 503; wanted 200"


async def test_a_bug_is_logged_with_its_place_and_without_its_message() -> None:
    world = World(KeyError("a secret that a tenant wrote"))
    await world.play()
    assert world.lines[0]["error"] == "KeyError"
    assert world.lines[0]["trace"][-1].endswith("poll")
    assert "secret" not in world.out.getvalue().decode()


async def test_a_poll_that_never_ends_fails_when_all_metrics_are_stale() -> None:
    class Hangs:
        async def poll(self, into: Utilisation) -> dict[str, str]:
            await asyncio.Event().wait()
            return {}

    settings = GpuMetricsSettings.model_validate({"source": "dcgm", "interval": 1, "staleAfter": 2}).model_copy(
        update={"stale_after": 0.05}
    )
    feed = GpuMetricsFeed(settings, Hangs(), Utilisation(settings), lambda name, use: None, {"failed": 0})
    assert await feed.poll() is False


async def test_a_node_that_gives_no_metrics_is_named_once_until_it_gave_some() -> None:
    world = World(10.0)
    source = world.feed._source
    assert isinstance(source, Scripted)
    for silent in ({}, {"a": "it is off"}, {"a": "it is off"}, {}, {"a": "again", "b": "too"}):
        source.silent, source._script = silent, [10.0]
        assert await world.feed.poll()
    assert [(line["nodes"], line["count"], line["why"]) for line in world.lines] == [
        (["a"], 1, "it is off"),
        (["a", "b"], 2, "again"),
    ]


async def test_a_policy_that_turns_metrics_off_withdraws_them() -> None:
    world = World(10.0)
    await world.play()
    world.sink.configure(GpuMetricsSettings())
    reported: list[tuple[str, NodeUse]] = []
    feed = GpuMetricsFeed(GpuMetricsSettings(), None, world.sink, lambda name, use: reported.append((name, use)), {})
    task = asyncio.create_task(feed.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    assert reported == [("a", UNKNOWN)]
    with pytest.raises(asyncio.CancelledError):
        await task
