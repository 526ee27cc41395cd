"""Which watches are stuck."""

import pytest

from webhook.feeds.watch import Watches

BOUND = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watches() -> tuple[Watches, Clock]:
    """Three watches, of which two are required, and their time."""
    clock = Clock()
    watches = Watches(["nodes", "policy"], BOUND, clock)
    for name in ("nodes", "policy", "jobs"):
        watches.answered(name)
    return watches, clock


@pytest.mark.parametrize(
    ("status", "stuck"),
    [
        pytest.param(0, ["nodes"], id="no answer"),
        pytest.param(403, ["nodes"], id="the right was taken away"),
        pytest.param(401, ["nodes"], id="the token has ended"),
        pytest.param(429, [], id="the API server has too much to do"),
        pytest.param(500, [], id="the API server fails"),
        pytest.param(200, [], id="an answer"),
    ],
)
def test_a_watch_that_alone_is_silent_is_stuck(watches: tuple[Watches, Clock], status: int, stuck: list[str]) -> None:
    seen, clock = watches
    for _ in range(3):
        clock.now += BOUND / 3
        seen.answered("policy")
        seen.answered("nodes", status)
        assert seen.stuck() == []
    clock.now += 1
    seen.answered("jobs")
    seen.answered("policy")
    assert seen.stuck() == stuck
    seen.answered("nodes")
    assert seen.stuck() == []


def test_a_watch_that_is_not_required_is_never_stuck(watches: tuple[Watches, Clock]) -> None:
    seen, clock = watches
    for _ in range(9):
        clock.now += BOUND / 3
        seen.answered("nodes")
        seen.answered("policy")
    assert seen.stuck() == []


def test_all_watches_that_the_api_server_refuses_are_stuck(watches: tuple[Watches, Clock]) -> None:
    seen, clock = watches
    for _ in range(9):
        clock.now += BOUND / 3
        seen.answered("nodes", 401)
        seen.answered("policy", 401)
    assert seen.stuck() == ["nodes", "policy"]


def test_no_watch_is_stuck_while_the_api_server_answers_nothing_nor_when_it_is_back(
    watches: tuple[Watches, Clock],
) -> None:
    seen, clock = watches
    clock.now += BOUND / 2
    seen.answered("nodes")
    clock.now += 100 * BOUND
    assert seen.stuck() == []
    seen.answered("nodes")
    assert seen.stuck() == [], "the other watch is not silent: nobody was answered"
    clock.now += BOUND / 2
    seen.answered("nodes")
    assert seen.stuck() == []
    clock.now += 1
    seen.answered("nodes")
    assert seen.stuck() == ["policy"]
