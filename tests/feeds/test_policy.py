"""The policy in force while its ConfigMap is created, changed, broken and deleted."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.feeds.fake_api import FakeApi, client_of, fake_api
from tests.waiting import until
from webhook.feeds import policy
from webhook.feeds.policy import ConfigMapSink, CurrentPolicy, shipped_policy
from webhook.feeds.tasks import Tasks
from webhook.feeds.watch import Feed
from webhook.policy.model import Policy
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

MAPS, EVENTS = "/api/v1/namespaces/gpu-admission/configmaps", "/api/v1/namespaces/gpu-admission/events"
NAME = "gpu-admission-policy"
GOOD, OTHER = "profiles: {default: {dryRun: false}}", "profiles: {default: {dryRun: true}}"
META = {"namespace": "gpu-admission"}


@dataclass
class Scene:
    api: FakeApi
    holder: CurrentPolicy
    metrics: Metrics
    log: io.BytesIO

    def apply(self, text: str, key: str = "policy.yaml") -> None:
        self.api.put(MAPS, NAME, metadata=META, data={key: text})

    @property
    def dry_run(self) -> bool | None:
        return self.holder.current and self.holder.current.file.profiles["default"].dry_run

    def lines(self, event: str) -> list[Any]:
        return [line for line in map(orjson.loads, self.log.getvalue().splitlines()) if line["event"] == event]


@asynccontextmanager
async def started(first: str | None = GOOD) -> AsyncIterator[Scene]:
    async with fake_api() as fake, client_of(fake) as api:
        log, metrics = io.BytesIO(), Metrics()
        logger = logs.configure(log)
        holder = CurrentPolicy(metrics, logger)
        sink = ConfigMapSink(holder, "gpu-admission", NAME)
        scene = Scene(fake, holder, metrics, log)
        fake.put(MAPS, "another", metadata=META, data={"policy.yaml": "{"})
        if first is not None:
            scene.apply(first)
        feed = Feed(api, "policy", MAPS, sink, metrics, logger, fields=f"metadata.name={NAME}")
        async with Tasks(metrics, logger) as tasks:
            tasks.start("feed", feed.run)
            tasks.start("events", lambda: sink.report(api, logger))
            yield scene


async def test_a_good_policy_takes_effect_and_its_hash_is_logged() -> None:
    async with started() as scene:
        await until(lambda: scene.dry_run is False)
        scene.apply(OTHER)
        await until(lambda: scene.dry_run is True)
        assert scene.holder.current is not None
        assert [line["hash"] for line in scene.lines("policy")][-1] == scene.holder.current.hash
        assert f'gpu_admission_policy_info{{hash="{scene.holder.current.hash}"}} 1.0'.encode() in scene.metrics.text()
        assert b"gpu_admission_policy_valid 1.0" in scene.metrics.text()


def lost(scene: Scene) -> None:
    """It is deleted, and the watch begins anew behind that event."""
    scene.api.delete(MAPS, NAME)
    scene.api.forget()
    scene.api.history[MAPS].clear()
    scene.api.cut()


BAD = [
    pytest.param(lambda scene: scene.apply("profiles: {default: {shadwo: true}}"), "shadwo", id="an unknown key"),
    pytest.param(lambda scene: scene.apply("a: ["), "not YAML", id="not YAML"),
    pytest.param(lambda scene: scene.apply(OTHER, key="policy.yml"), "has no key policy.yaml", id="another key"),
    pytest.param(lambda scene: scene.api.put(MAPS, NAME, metadata=META), "has no key policy.yaml", id="no data"),
    pytest.param(lambda scene: scene.api.delete(MAPS, NAME), "does not exist", id="deleted"),
    pytest.param(lost, "does not exist", id="deleted while the watch was broken"),
]


@pytest.mark.parametrize(("spoil", "why"), BAD)
async def test_a_bad_policy_changes_nothing_and_a_good_one_after_it_takes_effect(
    spoil: Callable[[Scene], None], why: str
) -> None:
    async with started() as scene:
        await until(lambda: scene.dry_run is False)
        spoil(scene)
        await until(lambda: scene.holder.error)
        assert why in str(scene.holder.error)
        assert scene.dry_run is False
        assert b"gpu_admission_policy_valid 0.0" in scene.metrics.text()
        assert b"gpu_admission_policy_errors_total 1.0" in scene.metrics.text()
        (line,) = scene.lines("policy refused")
        assert line["stays"] == scene.holder.current.hash  # type: ignore[union-attr]
        scene.apply(OTHER)
        await until(lambda: scene.dry_run is True)
        assert scene.holder.error is None


@pytest.mark.parametrize(
    ("first", "why"),
    [pytest.param(None, "does not exist", id="no ConfigMap"), pytest.param("a: [", "not YAML", id="an invalid policy")],
)
async def test_at_a_start_without_a_valid_policy_the_shipped_one_is_in_force_and_readyz_says_so(
    first: str | None, why: str
) -> None:
    async with started(first) as scene:
        await until(lambda: scene.api.objects[EVENTS])
        assert scene.holder.current is not None
        assert scene.holder.current.hash == Policy.load(shipped_policy()).hash
        assert "the shipped one is in force until it can: " in scene.holder.remark
        assert why in scene.holder.remark
        metrics = scene.metrics.text()
        assert b"gpu_admission_policy_shipped 1.0" in metrics
        assert b"gpu_admission_policy_valid 0.0" in metrics
        (event,) = scene.api.objects[EVENTS].values()
        assert (event["reason"], event["message"]) == ("PolicyRefused", scene.holder.remark)
        scene.apply(GOOD)
        await until(lambda: not scene.holder.shipped)
        assert scene.dry_run is False
        assert scene.holder.remark == ""
        assert b"gpu_admission_policy_shipped 0.0" in scene.metrics.text()


async def test_a_bad_policy_is_reported_by_one_event_on_the_config_map() -> None:
    async with started() as scene:
        await until(lambda: scene.dry_run is False)
        scene.apply("profiles: {default: {shadwo: true}}")
        await until(lambda: scene.api.objects[EVENTS])
        scene.api.forget()
        scene.api.cut()
        await until(lambda: len(scene.api.asked("watch", MAPS)) == 3)
        assert len(scene.lines("policy refused")) == 1, "the same policy is not refused again after a new list"
        (event,) = scene.api.objects[EVENTS].values()
        assert event["involvedObject"]["name"] == NAME
        assert event["involvedObject"]["uid"] == f"uid-{NAME}"
        assert (event["type"], event["reason"]) == ("Warning", "PolicyRefused")
        assert "the last good one stays: line 1: profiles.default.shadwo: unknown key" in event["message"]


async def test_the_same_policy_takes_effect_again_when_its_config_map_is_back() -> None:
    log = io.BytesIO()
    holder = CurrentPolicy(Metrics(), logs.configure(log))
    sink = ConfigMapSink(holder, "gpu-admission", NAME)
    config_map = {"metadata": {"uid": "u", "resourceVersion": "1"}, "data": {"policy.yaml": GOOD}}
    for _ in range(2):
        sink.seen(config_map)
        assert holder.error is None
        sink.complete(set())
        assert "does not exist" in holder.remark
    assert log.getvalue().count(b'"event":"policy"') == 1, "it is the one that was in force"


def test_the_remark_of_the_probe_is_bounded() -> None:
    holder = CurrentPolicy(Metrics(), logs.configure(io.BytesIO()))
    holder.load("profiles:\n" + "".join(f"  p{number}: {{shadwo: 1}}\n" for number in range(100)))
    assert len(holder.remark) == 1000


async def test_if_the_policy_changes_faster_than_events_are_written_the_newest_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_refused = asyncio.Event()
    waits = SimpleNamespace(Queue=asyncio.Queue, sleep=lambda _: all_refused.wait())
    monkeypatch.setattr(policy, "asyncio", waits)
    async with started() as scene:
        await until(lambda: scene.dry_run is False)
        for number in range(100):
            scene.apply(f"profiles: {{default: {{key{number}: true}}}}")
        await until(lambda: len(scene.lines("policy refused")) == 100)
        all_refused.set()
        await until(lambda: any("key99" in event["message"] for event in scene.api.objects[EVENTS].values()))
        assert len(scene.api.objects[EVENTS]) <= 10, "those that waited, and what was written before"


async def test_an_event_that_cannot_be_written_does_no_harm() -> None:
    async with started() as scene:
        scene.api.refuse["post", EVENTS] = (403, "events is forbidden")
        scene.apply("a: [")
        await until(lambda: scene.lines("event not written"))
        scene.apply(OTHER)
        await until(lambda: scene.dry_run is True)
