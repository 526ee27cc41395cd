"""The cluster state, fed by watches of a real HTTP server."""

import io
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from tests.controlplane.nodes import node
from tests.feeds.fake_api import FakeApi, client_of, fake_api
from tests.state.objects import stored
from tests.waiting import until
from webhook.feeds import cluster, watch
from webhook.feeds.cluster import PATHS, ClusterSink
from webhook.feeds.tasks import Tasks
from webhook.framework.cluster_view import Autoscaler
from webhook.state.objects import REQUIRED
from webhook.state.state import ClusterState
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

NODES, PODS = PATHS["nodes"], PATHS["pods"]


@asynccontextmanager
async def fed(fake: FakeApi, lines: io.BytesIO | None = None) -> AsyncIterator[tuple[ClusterState, Metrics]]:
    state, metrics = ClusterState(max_age=60.0), Metrics()
    log = logs.configure(lines or io.BytesIO())
    async with client_of(fake) as api, Tasks(metrics, log) as tasks:
        cluster.start(tasks, api, state, metrics, log, time.monotonic)
        yield state, metrics


OPTIONAL = (
    *("resourcequotas", "resourceslices", "horizontalpodautoscalers", "jobs", "runtimeclasses"),
    *("persistentvolumeclaims", "persistentvolumes", "limitranges", "nodepools"),
    *("devicetaintrules", "deviceclasses", "resourceclaims", "resourceclaimtemplates"),
)
OPTIONAL_PATHS = [PATHS[kind] for kind in OPTIONAL]
QUOTAS, SLICES, AUTOSCALERS, JOBS, RUNTIMES, CLAIMS, VOLUMES, RANGES, POOLS, *DEVICES = OPTIONAL_PATHS


def optional_objects(fake: FakeApi) -> None:
    """One of each optional kind."""
    fake.put(SLICES, "s", spec={"nodeName": "a", "driver": "gpu.nvidia.com"})
    scope = {"scopeName": "PriorityClass", "operator": "Exists"}
    fake.put(QUOTAS, "q", metadata={"namespace": "t"}, spec={"scopeSelector": {"matchExpressions": [scope]}})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    fake.put(AUTOSCALERS, "h", metadata={"namespace": "t"}, spec={"maxReplicas": 9, "scaleTargetRef": target})
    fake.put(JOBS, "j", metadata={"namespace": "t", "uid": "u"}, spec={"parallelism": 4})
    fake.put(RUNTIMES, "fast", handler="nvidia")
    fake.put(CLAIMS, "c", metadata={"namespace": "t"}, spec={"volumeName": "v"})
    for path, name, namespace in zip(
        DEVICES, ("k", "k", "rc", "t"), ({}, {}, {"namespace": "t"}, {"namespace": "t"}), strict=True
    ):
        fake.put(path, name, metadata=namespace, spec={})
    limits = [{"type": "Container", "max": {"cpu": "8"}}]
    fake.put(RANGES, "l", metadata={"namespace": "t"}, spec={"limits": limits})
    fake.put(POOLS, "p", spec={})
    fake.put(VOLUMES, "v", metadata={"labels": {"topology.kubernetes.io/zone": "z"}}, spec={})


Facts = tuple[set[str], str, Autoscaler | None, int, str | None, str | None, bool, int, list[str], bool]


def optional_facts(state: ClusterState) -> Facts:
    """The facts about `optional_objects` in the state."""
    seen = state.view(time.monotonic())
    return (
        state.nodes.dra,
        seen.quota_covering("t", "ours", but=""),
        seen.autoscaler_of("t", "Deployment", "web"),
        state.jobs.pods("t/u"),
        seen.runtime_handler("fast"),
        claim.volume if (claim := state.volume_claims.get("t/c")) else None,
        "v" in state.volumes,
        len([*state.device_classes, *state.claims, *state.claim_templates]),
        [each.limits["cpu"] for each in seen.limit_ranges("t")],
        seen.requires_preferences,
    )


ALL_SEEN: Facts = {"a"}, "q", Autoscaler("h", 9), 4, "nvidia", "v", True, 3, ["8"], True
NONE_THERE: Facts = set(), "", None, 0, None, None, False, 0, [], False
NONE_KNOWN: Facts = set(), "", None, 0, None, None, False, 0, [], False


def test_the_kinds_are_the_required_and_the_optional_ones() -> None:
    assert set(PATHS) == {*REQUIRED, *OPTIONAL}


async def test_all_required_kinds_reach_the_state_and_make_it_fresh() -> None:
    async with fake_api() as fake:
        fake.put(NODES, "a", **node("a"))
        fake.put(PATHS["namespaces"], "team", metadata={"labels": {"x": "y"}})
        fake.put(PATHS["priorityclasses"], "high", value=7)
        async with fed(fake) as (state, _):
            await until(lambda: state.fresh(time.monotonic()))
            view = state.view(time.monotonic())
            assert view.resources() == {"nvidia.com/gpu": 8}
            assert view.namespace_labels("team") == {"x": "y"}
            assert view.priority_classes["high"].value == 7
            fake.put(NODES, "b", **node("b", 4))
            fake.delete(PATHS["namespaces"], "team")
            fake.delete(PATHS["priorityclasses"], "high")
            fake.delete(NODES, "a")
            await until(lambda: "high" not in state.priority_classes and "team" not in state.namespaces)
            await until(lambda: state.view(0.0).resources() == {"nvidia.com/gpu": 4})


async def test_the_state_is_not_fresh_before_every_required_kind_was_listed() -> None:
    async with fake_api() as fake:
        fake.refuse["list", PODS] = (403, "forbidden")
        async with fed(fake) as (state, _):
            await until(lambda: len(state.freshness.listed) == len(PATHS) - 1)
            assert not state.fresh(time.monotonic())
            fake.refuse.clear()
            await until(lambda: state.fresh(time.monotonic()))


async def test_the_optional_kinds_reach_the_state_and_leave_it() -> None:
    async with fake_api() as fake:
        fake.put(NODES, "a", **node("a", 0))
        optional_objects(fake)
        async with fed(fake) as (state, _):
            await until(lambda: state.fresh(time.monotonic()) and state.freshness.listed.issuperset(OPTIONAL))
            assert optional_facts(state) == ALL_SEEN
            for path, name in zip(
                OPTIONAL_PATHS, ("q", "s", "h", "j", "fast", "c", "v", "l", "p", "k", "k", "rc", "t"), strict=True
            ):
                fake.delete(path, name)
            await until(lambda: optional_facts(state) == NONE_THERE)


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize("status", [pytest.param(403, id="forbidden"), pytest.param(404, id="not served")])
async def test_an_optional_kind_that_is_refused_delays_nothing_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, status: int, verb: str
) -> None:
    monkeypatch.setattr(watch, "OPTIONAL_PAUSE", 0.02)
    lines = io.BytesIO()
    async with fake_api() as fake:
        fake.put(NODES, "a", **node("a"))
        for path in OPTIONAL_PATHS:
            fake.refuse[verb, path] = (status, "no")
        async with fed(fake, lines) as (state, metrics):
            await until(lambda: all(len(fake.asked(verb, path)) > 2 for path in OPTIONAL_PATHS))
            assert state.fresh(time.monotonic())
            # If only the watch is refused, the objects are known between the list and the watch of each attempt.
            await until(lambda: optional_facts(state) == NONE_KNOWN)
            logged = [orjson.loads(line) for line in lines.getvalue().splitlines()]
            assert sorted((line["event"], line["feed"]) for line in logged) == [
                ("feed failed", kind) for kind in sorted(OPTIONAL)
            ]
            assert b'feed_errors_total{feed="resourcequotas"} 0.0' in metrics.text()


async def test_a_kind_is_forgotten_when_it_is_refused_and_used_when_it_is_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "OPTIONAL_PAUSE", 0.02)
    async with fake_api() as fake:
        optional_objects(fake)
        async with fed(fake) as (state, _):
            await until(lambda: state.fresh(time.monotonic()) and state.freshness.listed.issuperset(OPTIONAL))
            for path in OPTIONAL_PATHS:
                fake.refuse["list", path] = fake.refuse["watch", path] = (403, "no")
            fake.cut()
            await until(lambda: optional_facts(state) == NONE_KNOWN)
            fake.refuse.clear()
            await until(lambda: optional_facts(state) == ALL_SEEN)


async def test_a_refused_optional_kind_is_asked_for_only_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "OPTIONAL_PAUSE", 1000.0)
    async with fake_api() as fake:
        fake.refuse["list", QUOTAS] = (404, "no")
        fake.refuse["list", PODS] = (404, "no")
        async with fed(fake):
            await until(lambda: len(fake.asked("list", PODS)) > 4)
            assert len(fake.asked("list", QUOTAS)) == 1


def test_a_pod_is_announced_once_when_it_becomes_bound() -> None:
    """Not those that a list has: nobody knows when they were bound."""
    bound: list[str] = []
    sink = ClusterSink(ClusterState(), "pods", lambda: 0.0, lambda made: bound.append(made["metadata"]["name"]))
    sink.seen(stored("old", on="b"), listed=True)
    for made in (stored("p"), stored("p", on="b"), stored("p", on="b"), stored("old", on="b")):
        sink.seen(made)
    assert bound == ["p"]
