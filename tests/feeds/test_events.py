"""Events on their way to the API server: few, each once, counted up, and never in the way. With a clock of its own."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from tests.admission.test_events import BAD, denied, request
from tests.cluster.objects import node, pod, state
from tests.feeds.fake_api import FakeApi, client_of, fake_api
from webhook.admission.decision import Decision
from webhook.feeds import events
from webhook.feeds.api import Api
from webhook.feeds.cluster import PodSink
from webhook.feeds.events import Events
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

Json = dict[str, Any]
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
        """One more replica."""
        log = logs.configure(self.out)
        return Events(self.state, self.metrics, log, lambda: self.now, self.today)

    def today(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)

    def refuse(self, name: str = "web-1", times: int = 1, namespace: str = "team", by: Events | None = None) -> None:
        for _ in range(times):
            (by or self.events).refused(request({"name": name}, namespace=namespace), denied())

    async def write(self, seconds: float = 2.0, by: Events | None = None) -> None:
        """All that may be written so many seconds later."""
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
async def scene() -> AsyncIterator[Scene]:
    async with fake_api() as fake, client_of(fake) as api:
        yield Scene(fake, api)


async def test_nothing_is_written_in_a_namespace_that_has_not_opted_in_or_is_not_known() -> None:
    async with scene() as it:
        it.state.seen("namespaces", {"metadata": {"name": "plain"}}, 0.0)
        for namespace in ("plain", "unknown", "team/../plain"):
            it.refuse(namespace=namespace)
        it.events.refused(request(dry_run=True), denied())
        it.events.refused(request(), Decision("shadow", findings=(BAD,)))
        await it.write()
        assert it.fake.requests == []


async def test_a_refusal_that_repeats_is_one_event_with_a_count() -> None:
    async with scene() as it:
        it.refuse(times=7)
        await it.write()
        (event,) = it.stored()
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
        it.refuse(times=3)
        await it.write(60)
        (event,) = it.stored()
        assert (event["count"], event["firstTimestamp"]) == (10, "2026-01-01T00:16:40Z")
        assert event["lastTimestamp"] == "2026-01-01T00:17:42Z"
        assert it.count("written") == 2


async def test_two_replicas_count_up_the_same_event() -> None:
    async with scene() as it:
        other = it.another()
        it.refuse(times=2)
        it.refuse(times=3, by=other)
        await it.write()
        await it.write(by=other)
        (event,) = it.stored()
        assert event["count"] == 5


async def test_an_event_waits_for_its_repetitions() -> None:
    async with scene() as it:
        it.refuse()
        await it.write(0.5)
        assert it.stored() == []


async def test_a_pod_bound_elsewhere_is_told_once_by_however_many_replicas() -> None:
    async with scene() as it:
        it.opt_in("team-a")
        bound, waits = pod("p", on="b", ranked=("a", "b")), pod("p", ranked=("a", "b"))
        for by in (it.events, it.another()):
            sink = PodSink(it.state, lambda: it.now, by.bound)
            sink.list_begins()
            sink.in_list(pod("old", on="b", ranked=("a", "b")))
            sink.list_ends()
            sink.seen(waits)
            sink.seen(bound)
            sink.seen(bound)
            sink.seen(pod("old", on="b", ranked=("a", "b")))
            sink.gone(bound)
            await it.write(by=by)
        (event,) = it.stored("team-a")
        assert (event["reason"], event["count"]) == ("BoundElsewhere", 1)
        assert (
            event["message"]
            == "bound to b, number 2 of the ranking, not to a: that node is cordoned (spec.unschedulable)"
        )
        assert it.fake.asked("patch", f"/api/v1/namespaces/team-a/events/{event['metadata']['name']}") == []


async def test_one_namespace_has_its_share_and_another_is_not_kept_waiting() -> None:
    async with scene() as it:
        it.opt_in("other")
        for number in range(100):
            it.refuse(f"web-{number}")
        it.refuse(namespace="other")
        assert it.count("dropped") == 100 - events.MAX_WAITING_OF_NAMESPACE
        await it.write()
        assert (len(it.stored()), len(it.stored("other"))) == (events.NAMESPACE_BURST, 1)
        await it.write(3 * events.NAMESPACE_EVERY_SECONDS)
        assert len(it.stored()) == events.NAMESPACE_BURST + 3


async def test_all_namespaces_together_have_a_bound_of_what_waits_and_of_what_is_written() -> None:
    async with scene() as it:
        for number in range(400):
            it.opt_in(f"n{number}")
            it.refuse(namespace=f"n{number}")
        assert it.count("dropped") == 400 - events.MAX_WAITING
        await it.write()
        assert it.count("written") == events.BURST
        await it.write(10 * events.EVERY_SECONDS)
        assert it.count("written") == events.BURST + 10


async def test_without_the_rights_it_is_counted_and_logged_once() -> None:
    async with scene() as it:
        it.fake.refuse["post", PATH] = 403, "events is forbidden"
        for number in range(5):
            it.refuse(f"web-{number}")
        await it.write()
        (line,) = it.lines()
        assert (line["event"], line["level"]) == ("event not written", "warning")
        assert "events is forbidden" in line["why"]
        assert it.count("failed") == 5
        it.fake.refuse.clear()
        it.refuse()
        await it.write()
        assert len(it.stored()) == 1


async def test_an_owner_that_cannot_be_read_fails_no_review() -> None:
    async with scene() as it:
        it.events.refused(request(object={"metadata": {"ownerReferences": [7]}}), denied())
        assert it.count("failed") == 1
        assert it.lines()[0]["event"] == "event not made"


async def test_the_longest_name_gives_a_name_that_the_api_server_takes() -> None:
    async with scene() as it:
        it.refuse(f"{'a' * 199}-{'b' * 50}")
        await it.write()
        (event,) = it.stored()
        assert event["metadata"]["name"].partition(".")[0] == "a" * 199
