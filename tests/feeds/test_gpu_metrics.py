"""The polling loop: no error ends it, it waits longer after each failure, and it withdraws stale metrics.

Covers feeds.gpu_source.
"""

import asyncio
import io
import random
from typing import Any

import orjson
import pytest
from aiohttp import web

from tests.feeds.exporters import DATA, exporter, served
from tests.feeds.fake_api import client_of, fake_api
from tests.waiting import until
from webhook.feeds import gpu_metrics
from webhook.feeds.access import Access
from webhook.feeds.api import Api
from webhook.feeds.gpu_metrics import GpuMetrics
from webhook.feeds.gpu_source import SourceFailed
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import UNKNOWN, NodeUse, Reading, Utilisation
from webhook.policy.model import Policy
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

SETTINGS = GpuMetricsSettings(source="dcgm")
END = "no more polls"


async def nobody() -> Access:
    raise AssertionError("no API server is asked")


class Scripted:
    """A source with a list of answers: a number is the utilisation of a GPU, and an exception is raised."""

    def __init__(self, *script: float | BaseException) -> None:
        self.script = list(script)
        self.silent: dict[str, str] = {}

    async def poll(self, into: Utilisation) -> dict[str, str]:
        if not self.script:
            raise asyncio.CancelledError(END)
        step = self.script.pop(0)
        into.add("a", "0", Reading.UTILISATION, 99.0 if isinstance(step, BaseException) else step)
        if isinstance(step, BaseException):
            raise step
        return self.silent


class World:
    """A feed whose clock moves when it waits, with everything that it reports."""

    def __init__(self, *script: float | BaseException) -> None:
        self.now, self.source = 1000.0, Scripted(*script)
        self.pauses: list[float] = []
        self.reported: list[tuple[str, NodeUse]] = []
        self.out, self.metrics = io.BytesIO(), Metrics()
        self.sink = Utilisation(SETTINGS)
        self.feed = GpuMetrics(
            lambda: None,
            self.sink,
            lambda name, use: self.reported.append((name, use)),
            Api(nobody),
            self.metrics,
            logs.configure(self.out),
            clock=lambda: self.now,
            pause=self.pause,
        )

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def play(self) -> None:
        with pytest.raises(asyncio.CancelledError, match=END):
            await self.feed.keep_polling(SETTINGS, self.source)

    @property
    def lines(self) -> list[Any]:
        return [orjson.loads(line) for line in self.out.getvalue().splitlines()]


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
    assert b'polls_total{result="succeeded"} 2.0' in world.metrics.text()
    assert b'polls_total{result="failed"} 1.0' in world.metrics.text()


@pytest.mark.parametrize(
    ("script", "jitter", "pauses"),
    [
        pytest.param([*[FAILED] * 8, 10.0, FAILED], max, [1, 2, 4, 8, 16, 30, 30, 30, 33, 1], id="longer, up to the interval"),
        pytest.param([10.0, 10.0, FAILED], min, [27, 27, 0.5], id="replicas that start together drift apart"),
    ],
)  # fmt: skip
async def test_how_long_it_waits(
    script: Any, jitter: Any, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", jitter)
    world = World(*script)
    await world.play()
    assert world.pauses == pauses


async def test_stale_metrics_are_withdrawn_while_the_source_does_not_answer() -> None:
    world = World(10.0, *[FAILED] * 20)
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

    world = World()
    assert await world.feed.poll(SETTINGS.model_copy(update={"stale_after": 0.05}), Hangs()) is False


async def test_a_node_that_gives_no_metrics_is_named_once_until_it_gave_some() -> None:
    world = World()
    for silent in ({}, {"a": "it is off"}, {"a": "it is off"}, {}, {"a": "again", "b": "too"}):
        world.source.silent, world.source.script = silent, [10.0]
        assert await world.feed.poll(SETTINGS, world.source)
    assert [(line["nodes"], line["count"], line["why"]) for line in world.lines] == [
        (["a"], 1, "it is off"),
        (["a", "b"], 2, "again"),
    ]


async def test_the_pods_that_the_policy_names_are_found_followed_and_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real API server tells of them in tests/e2e/test_nvidia_smi.py."""
    monkeypatch.setattr(gpu_metrics, "_POLICY_SECONDS", 0.01)
    now, reported, pods = 0.0, dict[str, NodeUse](), "/api/v1/namespaces/gpu-operator/pods"
    sink, force = Utilisation(GpuMetricsSettings()), [Policy.load("{}")]

    async def page(request: web.BaseRequest) -> web.Response:
        nonlocal now
        now += 200.0
        return web.Response(text=(DATA / "dcgm-8-idle.txt").read_text())

    async def pause(_: float) -> None:
        await asyncio.sleep(0.01)

    async with fake_api() as fake, client_of(fake) as api, served(page) as port:
        log, settings = logs.configure(io.BytesIO()), f"{{source: dcgm, pods: {{port: {port}}}, staleAfter: 600s}}"
        feed = GpuMetrics(
            lambda: force[0], sink, reported.__setitem__, api, Metrics(), log, clock=lambda: now, pause=pause
        )
        fake.put(pods, "one", **exporter("gpu-a-0", "127.0.0.1", name="one"))
        task = asyncio.create_task(feed.run())
        await asyncio.sleep(0.05)
        assert reported == {}
        force[0] = Policy.load(f"gpuMetrics: {settings}")
        await until(lambda: reported)
        assert reported == {"gpu-a-0": NodeUse(8, 8, 0.0, 32.0, 0, 0, 0, 0, 8)}
        fake.put(pods, "two", **exporter("gpu-a-2", "127.0.0.1", name="two"))
        await until(lambda: "gpu-a-2" in reported)
        fake.delete(pods, "one")
        await until(lambda: reported["gpu-a-0"] == UNKNOWN)
        force[0] = Policy.load("{}")
        await until(lambda: reported["gpu-a-2"] == UNKNOWN)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
