"""Owners without seen pods get few reservations; an honest burst gets all of its own."""

from __future__ import annotations

import pytest

from tests.cluster.objects import admitted, free, node, pod, state
from webhook.cluster.ledger import Counts
from webhook.cluster.pods import PodKey, reservation_request
from webhook.cluster.reservation_limit import _MAX_OWNERS, MAX_UNSEEN, MIN_TOTAL, ReservationLimit
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Placement, Ranked

NODES = [node(f"n{i}") for i in range(40)]


def key(owner: int | str, namespace: str = "ml") -> PodKey:
    return PodKey(namespace, str(owner))


def opened(limit: ReservationLimit, pod_key: PodKey, wanted: int, nodes: int = 0) -> int:
    """How many of these reservations are made."""
    count = 0
    for _ in range(wanted):
        if limit.allows(pod_key, nodes):
            limit.opened(pod_key)
            count += 1
    return count


@pytest.mark.parametrize("pods", [1, 30, 1000])
def test_a_controller_that_doubles_gets_a_reservation_for_every_pod(pods: int) -> None:
    limit, left, batch = ReservationLimit(), pods, 1
    while left:
        now = min(batch, left)
        assert opened(limit, key("job"), now) == now
        for _ in range(now):
            limit.pod_seen(key("job"))
            limit.closed(key("job"))
        left, batch = left - now, batch * 2
    assert limit.declined == 0


def test_pods_of_many_owners_that_are_seen_one_by_one_get_all_reservations() -> None:
    limit = ReservationLimit()
    for i in range(2 * _MAX_OWNERS):
        assert opened(limit, key(i), 1) == 1
        limit.pod_seen(key(i))
        limit.closed(key(i))
    assert len(limit._seen) == _MAX_OWNERS
    assert (limit._unseen, limit._unseen_in, limit._open) == (0, {}, {})


def test_owners_without_seen_pods_have_few_reservations_in_a_namespace_together() -> None:
    limit = ReservationLimit()
    assert opened(limit, key("forged"), 100) == MAX_UNSEEN
    assert sum(opened(limit, key(i), 1) for i in range(100)) == 0
    assert limit.declined == 184


@pytest.mark.parametrize(("nodes", "most"), [(4, MIN_TOTAL), (1000, 125)])
def test_all_such_owners_reserve_at_most_an_eighth_of_the_nodes(nodes: int, most: int) -> None:
    limit = ReservationLimit()
    assert sum(opened(limit, key("x", f"ns-{i}"), 20, nodes) for i in range(100)) == most
    limit.pod_seen(key("job"))
    assert opened(limit, key("job"), 100, nodes) == MAX_UNSEEN + 2, "an owner with seen pods does not count"


def test_an_expired_reservation_makes_room_again() -> None:
    limit = ReservationLimit()
    for _ in range(3):
        assert opened(limit, key("a"), 50) == MAX_UNSEEN
        for _ in range(MAX_UNSEEN):
            limit.closed(key("a"))
    assert (limit._unseen, limit._unseen_in, limit._open) == (0, {}, {})


# --- in a cluster state -----------------------------------------------------------------------------------------------


def ask(of: ClusterState, owner: str, on: str, gpus: int = 8) -> None:
    of.reserve(
        reservation_request(admitted(pod("p", gpus, owner=owner))), Placement((Ranked(on, 8, 0, 1.0),), "pack"), 0
    )


def test_reviews_in_any_name_do_not_make_the_cluster_look_full() -> None:
    of = state(NODES)
    for i in range(1000):
        ask(of, f"forged-{i}", f"n{i % len(NODES)}")
    assert of.ledger.counts == Counts(MAX_UNSEEN, 0)
    assert sum(free(of, f"n{i}") for i in range(len(NODES))) == 8 * (len(NODES) - MAX_UNSEEN)
    of.expire(11)
    assert sum(free(of, f"n{i}") for i in range(len(NODES))) == 8 * len(NODES)


def test_a_declined_reservation_is_recognised_when_its_pod_is_seen() -> None:
    of = state(NODES)
    for i in range(MAX_UNSEEN):
        ask(of, f"forged-{i}", "n0", 0)
    ask(of, "honest", "n1", 4)
    assert free(of, "n1") == 8
    of.pod_seen(pod("p", 4, owner="honest", ranked=["n1"]), 1)
    assert free(of, "n1") == 4
    for _ in range(MAX_UNSEEN):
        ask(of, "honest", "n2", 0)
    assert of.ledger.counts == Counts(2 * MAX_UNSEEN, 1)
