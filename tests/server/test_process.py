"""When a replica is ready."""

import io
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import orjson
import pytest

from tests.builders import request
from tests.controlplane.objects import pod
from webhook.admission.decision import IGNORED, Decision
from webhook.errors import BadReview
from webhook.feeds.events import Events
from webhook.feeds.policy import shipped_policy
from webhook.kube.pod import PROFILE_LABEL
from webhook.kube.review import Request
from webhook.server import process
from webhook.server.process import Process, Recorder
from webhook.server.settings import ServeSettings
from webhook.state.objects import REQUIRED
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.refused import Refused
from webhook.tls.issue import make_ca, make_leaf

BOUND = 60.0


@pytest.fixture
async def replica(monkeypatch: pytest.MonkeyPatch) -> tuple[Process, list[float]]:
    """A replica that is ready, and its time."""
    now = [1000.0]
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: now[0]))
    ready = Process(ServeSettings(max_age=BOUND))
    for kind in REQUIRED:
        ready.state.replace(kind, [], 0.0)
    answered(ready)
    ready.policies.load(shipped_policy())
    today = datetime.now(UTC)
    ready.live.swap(make_leaf(make_ca(today), ["localhost"], today), today)
    return ready, now


class Reported:
    """In place of the queue of Events."""

    def __init__(self) -> None:
        self.results: list[str] = []

    def refused(self, request: Request, decision: Decision) -> None:
        self.results.append(decision.result)


@pytest.mark.parametrize("lines", [0, 9])
def test_a_refusal_is_counted_logged_and_reported_and_what_is_ignored_is_not(
    lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MAX_DECISION_LINES", lines)
    monkeypatch.setattr(process, "MAX_BAD_REVIEW_LINES", lines)
    log, events, refused = io.BytesIO(), Reported(), Refused({"team-a": {PROFILE_LABEL: ""}})
    recorder = Recorder(Metrics(), logs.configure(log), cast(Events, events), refused)
    for decision in (IGNORED, Decision("denied"), Decision("dryRun", quiet=True)):
        for hook in ("mutate", "validate"):
            recorder.decided(hook, request(pod()), decision, 0.001)
    recorder.bad_review("mutate", BadReview("forged"))
    assert events.results == ["denied", "denied", "dryRun"]
    assert refused.counts()["team-a"] == 2
    logged = [orjson.loads(line)["event"] for line in log.getvalue().splitlines()]
    wanted = ["denied", "denied", "dryRun", "dryRun", "bad review"] if lines else []
    assert [event for event in logged if event != "lines left out"] == wanted


async def test_a_replica_that_has_heard_nothing_says_what_is_missing() -> None:
    assert Process(ServeSettings()).missing() == [
        *(f"{kind} were not listed yet" for kind in REQUIRED),
        "there is no policy: none was seen yet",
        "there is no valid certificate",
    ]


def answered(process: Process, *but: str) -> None:
    for name in (*REQUIRED, "policy", "jobs"):
        if name not in but:
            process.watches.answered(name)


@pytest.mark.parametrize("name", [*REQUIRED, "policy"])
async def test_a_replica_is_not_ready_while_one_of_its_watches_alone_is_silent(
    replica: tuple[Process, list[float]], name: str
) -> None:
    process, now = replica
    assert process.missing() == []
    for _ in range(3):
        now[0] += BOUND / 2
        answered(process, name)
    assert process.missing() == [f"the watch of {name} is silent, although the API server answers"]
    answered(process)
    assert process.missing() == []
    process.edge.draining = True
    assert process.missing() == ["terminating"]


async def test_replicas_stay_ready_while_the_api_server_answers_nothing(replica: tuple[Process, list[float]]) -> None:
    """Otherwise the Service would have no endpoints when the API server is back, and would refuse the first pods."""
    process, now = replica
    now[0] += 100 * BOUND
    for name in (*REQUIRED, "policy"):
        process.watches.answered(name, 0)
    assert process.missing() == []
    answered(process)
    assert process.missing() == []
