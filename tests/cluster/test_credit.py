"""Promises to owners of which no pod was seen are few; an honest burst has all of its own."""

from __future__ import annotations

import pytest

from tests.cluster.objects import admitted, free, node, pod, state
from webhook.cluster.credit import _KEPT, FIRST, LEAST, Credit
from webhook.cluster.ledger import Counts
from webhook.cluster.pods import PodKey
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Placement, Ranked

NODES = [node(f"n{i}") for i in range(40)]


def key(owner: int | str, namespace: str = "ml") -> PodKey:
    return PodKey(namespace, str(owner))


def opened(credit: Credit, pod_key: PodKey, wanted: int, nodes: int = 0) -> int:
    """How many of these promises are held."""
    count = 0
    for _ in range(wanted):
        if credit.allows(pod_key, nodes):
            credit.opened(pod_key)
            count += 1
    return count


@pytest.mark.parametrize("pods", [1, 30, 1000])
def test_a_controller_that_doubles_is_promised_every_pod(pods: int) -> None:
    credit, left, batch = Credit(), pods, 1
    while left:
        now = min(batch, left)
        assert opened(credit, key("job"), now) == now
        for _ in range(now):
            credit.came(key("job"))
            credit.closed(key("job"))
        left, batch = left - now, batch * 2
    assert credit.declined == 0


def test_pods_of_many_owners_that_are_seen_one_by_one_are_promised_all() -> None:
    credit = Credit()
    for i in range(2 * _KEPT):
        assert opened(credit, key(i), 1) == 1
        credit.came(key(i))
        credit.closed(key(i))
    assert len(credit._came) == _KEPT
    assert (credit._unseen, credit._unseen_in, credit._open) == (0, {}, {})


def test_an_owner_without_pods_has_few_and_all_such_owners_of_a_namespace_have_no_more() -> None:
    credit = Credit()
    assert opened(credit, key("forged"), 100) == FIRST
    assert sum(opened(credit, key(i), 1) for i in range(100)) == 0
    assert credit.declined == 184


@pytest.mark.parametrize(("nodes", "most"), [(4, LEAST), (1000, 125)])
def test_all_namespaces_together_have_no_more_than_an_eighth_of_the_nodes(nodes: int, most: int) -> None:
    credit = Credit()
    assert sum(opened(credit, key("x", f"ns-{i}"), 20, nodes) for i in range(100)) == most
    credit.came(key("job"))
    assert opened(credit, key("job"), 100, nodes) == FIRST + 2, "an owner with pods is none of them"


def test_what_expires_makes_room_again() -> None:
    credit = Credit()
    for _ in range(3):
        assert opened(credit, key("a"), 50) == FIRST
        for _ in range(FIRST):
            credit.closed(key("a"))
    assert (credit._unseen, credit._unseen_in, credit._open) == (0, {}, {})


# --- in the state of the cluster ----------------------------------------------------------------------------------------


def ask(of: ClusterState, owner: str, on: str, gpus: int = 8) -> None:
    of.reserve(admitted(pod("p", gpus, owner=owner)), Placement((Ranked(on, 8, 0, 1.0),), "pack"), 0)


def test_reviews_in_any_name_do_not_make_the_cluster_look_full() -> None:
    of = state(NODES)
    for i in range(1000):
        ask(of, f"forged-{i}", f"n{i % len(NODES)}")
    assert of.ledger.counts == Counts(FIRST, 0)
    assert sum(free(of, f"n{i}") for i in range(len(NODES))) == 8 * (len(NODES) - FIRST)
    of.expire(11)
    assert sum(free(of, f"n{i}") for i in range(len(NODES))) == 8 * len(NODES)


def test_a_promise_that_is_not_held_is_recognised_when_its_pod_is_seen() -> None:
    of = state(NODES)
    for i in range(FIRST):
        ask(of, f"forged-{i}", "n0", 0)
    ask(of, "honest", "n1", 4)
    assert free(of, "n1") == 8
    of.pod_seen(pod("p", 4, owner="honest", promised=["n1"]), 1)
    assert free(of, "n1") == 4
    for _ in range(FIRST):
        ask(of, "honest", "n2", 0)
    assert of.ledger.counts == Counts(2 * FIRST, 1)
