"""When a replica is ready."""

from datetime import UTC, datetime

import pytest

from webhook.cluster.state import REQUIRED
from webhook.feeds.policy import shipped_policy
from webhook.feeds.watch import Watches
from webhook.server.process import Process
from webhook.server.settings import ServeSettings
from webhook.tls.issue import make_ca, make_leaf

BOUND = 60.0


@pytest.fixture
async def replica() -> tuple[Process, list[float]]:
    """A replica that is ready, and its time."""
    process, now = Process(ServeSettings(max_age=BOUND)), [1000.0]
    process.watches = Watches((*REQUIRED, "policy"), BOUND, lambda: now[0])
    for kind in REQUIRED:
        process.state.replace(kind, [], 0.0)
        process.watches.answered(kind)
    process.policies.load(shipped_policy())
    process.watches.answered("policy")
    today = datetime.now(UTC)
    process.live.swap(make_leaf(make_ca(today), ["localhost"], today), today)
    return process, now


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


async def test_replicas_stay_ready_while_the_api_server_answers_nothing(replica: tuple[Process, list[float]]) -> None:
    """Otherwise the Service would have no endpoints when the API server is back, and would refuse the first pods."""
    process, now = replica
    now[0] += 100 * BOUND
    for name in (*REQUIRED, "policy"):
        process.watches.answered(name, 0)
    assert process.missing() == []
    answered(process)
    assert process.missing() == []
