"""What happens to a reservation when its pod is bound, ends, or waits for long."""

from __future__ import annotations

import pytest

from tests.cluster.objects import free, pod
from tests.cluster.reserved import A, B, C, gpus, reserved, three
from webhook.cluster.ledger import Counts


@pytest.mark.parametrize(
    ("on", "where"),
    [
        pytest.param(A, "first", id="the first choice"),
        pytest.param(B, "ranked", id="another ranked node"),
        pytest.param(C, "other", id="a node that was not ranked"),
    ],
)
@pytest.mark.parametrize("seen_before", [True, False], ids=["seen unbound before", "seen bound at once"])
def test_a_bound_pod_counts_on_its_node_and_where_it_was_bound_is_counted(
    on: str, where: str, seen_before: bool
) -> None:
    of = reserved(pod("p", owner="o"), A, B)
    if seen_before:
        of.pod_seen(pod("p", owner="o", ranked=[A, B]), 1)
    of.pod_seen(pod("p", owner="o", ranked=[A, B], on=on), 2)
    assert {name: free(of, name) for name in (A, B, C)} == {A: 8, B: 8, C: 8, on: 7}
    assert of.ledger.counts == Counts(0, 0)
    assert of.ledger.honoured == {"first": 0, "ranked": 0, "other": 0, where: 1}
    assert of.usage.peers == {"team-a/o": {of.nodes.row_of[on]: 1}}


def test_a_pod_that_was_bound_before_it_was_seen_is_not_counted_as_honoured() -> None:
    of = three()
    of.pod_seen(pod("p", ranked=[A], on=A), 0)
    assert sum(of.ledger.honoured.values()) == 0


def test_a_bound_pod_that_is_seen_again_is_not_counted_again() -> None:
    of = reserved(pod("p"), A)
    for phase in ("", "Pending", "Running"):
        of.pod_seen(pod("p", ranked=[A], on=A, phase=phase), 1)
    assert of.ledger.honoured["first"] == 1
    assert gpus(of) == (7, 8, 8)


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "deleted"])
def test_a_pod_that_ends_before_it_is_bound_releases_its_reservation(finished: bool) -> None:
    made = pod("p", ranked=[A])
    of = reserved(made, A)
    of.pod_seen(made, 1)
    if finished:
        of.pod_seen(pod("p", ranked=[A], phase="Failed"), 2)
    else:
        of.pod_gone(made)
    assert of.ledger.counts == Counts(0, 0)
    assert of.ledger.ended["gone"] == 1
    assert gpus(of) == (8, 8, 8)


def test_a_list_without_a_waiting_pod_releases_its_reservation() -> None:
    of = three()
    of.pod_seen(pod("p", ranked=[A]), 1)
    of.replace("pods", [], 2)
    assert of.ledger.counts == Counts(0, 0)
    assert gpus(of) == (8, 8, 8)


def test_a_pod_that_fits_nowhere_holds_nothing_while_it_waits() -> None:
    of = reserved(pod("p"), A)
    of.pod_seen(pod("p", ranked=[A], unschedulable=True), 1)
    assert gpus(of) == (8, 8, 8)
    assert of.ledger.ended["unschedulable"] == 1
    of.pod_seen(pod("p", ranked=[A]), 2)
    assert gpus(of) == (8, 8, 8)
    of.pod_gone(pod("p", ranked=[A]))
    assert of.ledger.ended["gone"] == 0, "its reservation has ended already"


def test_a_pod_that_waits_too_long_holds_nothing_but_is_still_counted_when_it_is_bound() -> None:
    made = pod("p", ranked=[A])
    of = reserved(made, A)
    of.pod_seen(made, 1)
    of.expire(30.9)
    assert gpus(of) == (7, 8, 8)
    of.expire(31.0)
    assert gpus(of) == (8, 8, 8)
    assert of.ledger.counts == Counts(0, 0)
    of.pod_seen(made, 40)
    assert gpus(of) == (8, 8, 8)
    of.pod_seen(pod("p", ranked=[A], on=A), 50)
    assert gpus(of) == (7, 8, 8)
    assert of.ledger.honoured["first"] == 1


def test_a_reservation_on_a_node_that_is_deleted_does_not_outlive_it() -> None:
    of = reserved(pod("p"), A)
    of.node_gone(A)
    assert of.nodes.count == 2
    of.expire(30.0)
    assert A not in of.nodes.row_of
