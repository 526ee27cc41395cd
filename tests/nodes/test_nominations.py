"""What pods that were preempted leave on a node is for the pod that preempted them."""

from collections.abc import Callable

import pytest

from tests.controlplane.nodes import node
from tests.placement.placed import names, placed
from tests.state.objects import free, state, stored
from webhook.state.state import ClusterState

VICTIM = stored("victim", 8, on="a")
URGENT = stored("urgent", 8, priority=9, nominated="a", unschedulable=True)


def test_gpus_that_were_freed_for_a_preemptor_are_free_for_nobody_else() -> None:
    of = state([node("a"), node("b", 1)], [VICTIM])
    of.pod_seen(URGENT, 0)
    assert free(of, "a") == -8
    of.pod_gone(VICTIM)
    assert free(of, "a") == 0
    assert names(placed(of, stored("p"))) == ["b"]
    assert names(placed(of, stored("p", 2))) == []


def test_other_resources_are_kept_too() -> None:
    of = state([node("a")], [stored("urgent", 0, nominated="a")])
    assert free(of, "a", "cpu") == 124_000


@pytest.mark.parametrize(
    ("event", "left"),
    [
        pytest.param(lambda of: of.pod_seen(stored("urgent", 8, on="a"), 1), (0, 8), id="it is bound there"),
        pytest.param(lambda of: of.pod_seen(stored("urgent", 8, on="b"), 1), (8, 0), id="it is bound elsewhere"),
        pytest.param(lambda of: of.pod_seen(stored("urgent", 8), 1), (8, 8), id="it is nominated no more"),
        pytest.param(
            lambda of: of.pod_seen(stored("urgent", 8, nominated="b"), 1), (8, 0), id="it is nominated elsewhere"
        ),
        pytest.param(lambda of: of.pod_seen(stored("urgent", 8, phase="Failed"), 1), (8, 8), id="it has failed"),
        pytest.param(lambda of: of.pod_gone(URGENT), (8, 8), id="it is deleted"),
        pytest.param(lambda of: of.replace("pods", [], 1), (8, 8), id="it is missing in a list"),
        pytest.param(lambda of: of.pod_seen(URGENT, 1), (0, 8), id="it is seen again"),
        pytest.param(lambda of: of.expire(1000.0), (0, 8), id="time passes"),
    ],
)
def test_it_counts_until_its_pod_is_elsewhere(event: Callable[[ClusterState], None], left: tuple[int, int]) -> None:
    of = state([node("a"), node("b")])
    of.pod_seen(URGENT, 0)
    event(of)
    assert (free(of, "a"), free(of, "b")) == left


def test_a_reservation_of_the_pod_counts_no_more() -> None:
    of = state([node("a"), node("b")])
    of.pod_seen(stored("urgent", 8, ranked=["b"]), 0)
    assert free(of, "b") == 0
    of.pod_seen(stored("urgent", 8, ranked=["b"], nominated="a"), 1)
    assert (free(of, "a"), free(of, "b")) == (0, 8)


def test_a_node_that_comes_later_is_kept_too() -> None:
    of = state([], [URGENT])
    of.node_seen(node("a"))
    assert free(of, "a") == 0


def test_what_a_pod_has_that_is_being_bound_is_free_for_nobody() -> None:
    """While its claims are written, the scheduler nominates its node too: only 66 % of such pods got their first choice."""
    made = stored("bound-soon", 4, priority=0) | {"status": {"nominatedNodeName": "a"}}
    of = state([node("a", 8)], [made])
    of.nominations.set_aside(stored("urgent", 8, priority=1000))
    assert free(of, "a") == 4
