"""Events: few are written, each once, repetitions are counted, and failures do no harm. The clock is simulated."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import orjson

from tests.admission.test_events import denied, owned
from tests.controlplane.nodes import Json, node
from tests.feeds.fake_api import FakeApi, client_of, fake_api
from tests.state.objects import state
from webhook.admission.decision import Decision
from webhook.feeds import events
from webhook.feeds.api import Api
from webhook.feeds.events import Events
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

PATH = "/api/v1/namespaces/team/events"
LABELS = {"gpu-admission.io/profile": "default"}


@dataclass
class Scene:
    fake: FakeApi
    api: Api
    now: float = 1000.0
    metrics: Metrics = field(default_factory=Metrics)
    out: io.BytesIO = field(default_factory=io.BytesIO)

    def __post_init__(self) -> None:
        self.state = state([node("a", cordoned=True), node("b")])
        self.opt_in("team")
        self.events = self.another()

    def opt_in(self, namespace: str) -> None:
        self.state.seen("namespaces", {"metadata": {"name": namespace, "labels": LABELS}}, 0.0)

    def another(self) -> Events:
        """The queue of another replica."""
        log = logs.configure(self.out)
        return Events(self.state, self.metrics, log, lambda: self.now, self.today)

    def today(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)

    async def write_all(self) -> None:
        for _ in range(10):
            await self.write(1000)

    def refuse(self, name: str = "web-1", times: int = 1, namespace: str = "team", by: Events | None = None) -> None:
        for _ in range(times):
            (by or self.events).refused(owned({"name": name}, namespace=namespace), denied())

    async def write(self, seconds: float = 2.0, by: Events | None = None) -> None:
        """Advance the clock, and write all Events that may be written then."""
        self.now += seconds
        while await (by or self.events).turn(self.api):
            pass

    def stored(self, namespace: str = "team") -> list[Json]:
        return list(self.fake.objects[f"/api/v1/namespaces/{namespace}/events"].values())

    def count(self, result: str) -> float:
        return self.metrics.registry.get_sample_value("gpu_admission_events_total", {"result": result}) or 0

    def lines(self) -> list[Json]:
        return [orjson.loads(line) for line in self.out.getvalue().splitlines()]


@asynccontextmanager
async def started() -> AsyncIterator[Scene]:
    async with fake_api() as fake, client_of(fake) as api:
        yield Scene(fake, api)


async def test_nothing_is_written_in_a_namespace_that_is_unknown_or_has_not_opted_in() -> None:
    async with started() as scene:
        scene.state.seen("namespaces", {"metadata": {"name": "plain"}}, 0.0)
        for namespace in ("plain", "unknown", "team/../plain"):
            scene.refuse(namespace=namespace)
        scene.events.refused(owned(dry_run=True), denied())
        scene.events.refused(owned(), Decision("allowed", quiet=True))
        await scene.write()
        assert scene.fake.requests == []


async def test_a_refusal_that_repeats_is_one_event_with_a_count() -> None:
    async with started() as scene:
        scene.refuse(times=7)
        await scene.write()
        (event,) = scene.stored()
        assert event["involvedObject"] == {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "namespace": "team",
            "name": "web-1",
            "uid": "u-1",
        }
        assert (event["type"], event["reason"], event["count"]) == ("Warning", "PodRefused", 7)
        assert event["source"] == {"component": "gpu-admission"}
        assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T00:16:40Z", "2026-01-01T00:16:42Z")
        scene.refuse(times=3)
        await scene.write(60)
        (event,) = scene.stored()
        assert (event["count"], event["firstTimestamp"]) == (10, "2026-01-01T00:16:40Z")
        assert event["lastTimestamp"] == "2026-01-01T00:17:42Z"
        assert scene.count("written") == 2


async def test_replicas_that_count_at_once_lose_no_count() -> None:
    async with started() as scene:
        others = [scene.another(), scene.another()]
        for events in (None, *others):
            scene.refuse(times=2, by=events)
        await scene.write()
        await asyncio.gather(*(scene.write(by=events) for events in others))
        (event,) = scene.stored()
        assert event["count"] == 6
        assert len(scene.fake.asked("patch", f"/api/v1/namespaces/team/events/{event['metadata']['name']}")) > 4


async def test_what_is_written_is_the_last_refusal() -> None:
    async with started() as scene:
        scene.refuse()
        scene.events.refused(owned({"name": "web-1"}), denied()._replace(policy="2e1d"))
        await scene.write()
        (event,) = scene.stored()
        assert event["message"].endswith("(policy 2e1d)")


async def test_an_outage_is_one_line_and_no_other_error_raises_a_count() -> None:
    async with started() as scene:
        scene.refuse()
        await scene.write()
        for _ in range(2):
            scene.fake.refuse["post", PATH] = (403, "events is forbidden")
            for number in range(2):
                scene.refuse(f"web-{number + 1}")
            await scene.write(60)
            scene.fake.refuse.clear()
            scene.refuse("web-3")
            await scene.write(60)
        assert [line["event"] for line in scene.lines()] == ["event not written"] * 2
        assert scene.count("failed") == 4
        assert [each["count"] for each in scene.stored()] == [1, 2]


async def test_an_event_waits_for_its_repetitions() -> None:
    async with started() as scene:
        scene.refuse()
        await scene.write(0.5)
        assert scene.stored() == []


async def test_the_events_of_one_namespace_are_bounded_and_do_not_delay_another() -> None:
    async with started() as scene:
        scene.opt_in("other")
        for number in range(100):
            scene.refuse(f"web-{number}")
        scene.refuse(namespace="other")
        assert scene.count("dropped") == 100 - events.MAX_WAITING_OF_NAMESPACE
        await scene.write()
        assert (len(scene.stored()), len(scene.stored("other"))) == (events.NAMESPACE_BURST, 1)
        await scene.write(3 * events.NAMESPACE_EVERY_SECONDS)
        assert len(scene.stored()) == events.NAMESPACE_BURST + 3


async def test_the_waiting_and_the_written_events_of_all_namespaces_are_bounded() -> None:
    async with started() as scene:
        for number in range(400):
            scene.opt_in(f"n{number}")
            scene.refuse(namespace=f"n{number}")
        assert scene.count("dropped") == 400 - events.MAX_WAITING
        await scene.write()
        assert scene.count("written") == events.BURST
        await scene.write(10 * events.EVERY_SECONDS)
        assert scene.count("written") == events.BURST + 10


async def test_a_malformed_owner_fails_no_review() -> None:
    async with started() as scene:
        scene.events.refused(owned(object={"metadata": {"ownerReferences": [7]}}), denied())
        assert scene.count("failed") == 1
        assert scene.lines()[0]["event"] == "event not made"


async def test_a_long_name_is_cut_to_a_name_that_the_api_server_accepts() -> None:
    async with started() as scene:
        scene.refuse(f"{'a' * 199}-{'b' * 50}")
        await scene.write()
        (event,) = scene.stored()
        assert event["metadata"]["name"].partition(".")[0] == "a" * 199


async def test_a_full_queue_has_a_place_for_a_namespace_that_has_few_events() -> None:
    async with started() as scene:
        for number in range(8):
            scene.opt_in(f"noisy-{number}")
            for pod_number in range(events.MAX_WAITING_OF_NAMESPACE):
                scene.refuse(f"web-{pod_number}", namespace=f"noisy-{number}")
        scene.refuse()
        assert scene.count("dropped") == 1
        await scene.write()
        assert len(scene.stored()) == 1
        await scene.write_all()
        kept = {each["involvedObject"]["name"] for each in scene.stored("noisy-0")}
        assert kept == {f"web-{number}" for number in range(events.MAX_WAITING_OF_NAMESPACE - 1)}, "all but its newest"


async def test_a_full_queue_is_not_taken_from_one_that_has_hardly_more() -> None:
    async with started() as scene:
        for number in range(events.MAX_WAITING // 2 - 1):
            scene.opt_in(f"n{number}")
            for name in ("web-1", "web-2"):
                scene.refuse(name, namespace=f"n{number}")
        scene.opt_in("other")
        scene.refuse(namespace="other")
        scene.refuse()
        scene.refuse("web-2")
        await scene.write_all()
        assert len(scene.stored()) == 1


async def test_the_namespace_with_fewest_events_is_written_first() -> None:
    async with started() as scene:
        for number in range(20):
            scene.opt_in(f"noisy-{number}")
            for pod_number in range(3):
                scene.refuse(f"web-{pod_number}", namespace=f"noisy-{number}")
        await scene.write()  # 50 of these 60
        scene.refuse()
        await scene.write(events.GATHER_SECONDS)  # 2 more
        assert len(scene.stored()) == 1
