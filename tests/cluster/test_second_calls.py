"""Another webhook made a pod larger, and the API server calls again; or a stranger claims so. The watch shows which is
true.

Covers cluster.ledger.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.cluster.objects import admitted, free, node, pod
from tests.cluster.reserved import A, B, C, chosen, gpus, reserved, three
from webhook.cluster.ledger import Counts
from webhook.cluster.parts import _MAX_OPEN
from webhook.cluster.pods import reservation_request
from webhook.cluster.state import ClusterState

SMALL, LARGE = pod("p", 4, owner="o"), pod("p", 8, owner="o")


def again(
    of: ClusterState, before: dict[str, Any], made: dict[str, Any], *names: str, node: str = A, now: float = 0
) -> None:
    """Another webhook made the pod larger, and it is ranked again. `node` was chosen for it before."""
    asked = reservation_request(admitted(before))
    earlier = of.ledger.earlier(asked.key, node, asked.demand)
    assert earlier is not None
    of.reserve(reservation_request(admitted(made)), chosen(*names), now, earlier)


def test_the_reservation_of_an_earlier_call_stays_until_the_pod_is_seen() -> None:
    of = reserved(SMALL, A)
    again(of, SMALL, LARGE, B)
    assert gpus(of) == (4, 0, 8)
    of.pod_seen(pod("p", 8, owner="o", ranked=[B]), 1)
    assert (gpus(of), of.ledger.counts, of.ledger.ended["superseded"]) == ((8, 0, 8), Counts(0, 1), 1)
    assert (of.ledger._reserved, of.ledger.parts._shared, of.usage._private) == ({}, {}, {})


def test_a_pod_that_did_not_grow_ends_the_reservation_of_the_later_call() -> None:
    of = reserved(SMALL, A)
    again(of, SMALL, LARGE, B)
    of.pod_seen(pod("p", 4, owner="o", ranked=[A]), 1)
    assert (gpus(of), of.ledger.counts, of.usage.peers) == (
        (4, 8, 8),
        Counts(0, 1),
        {"team-a/o": {of.nodes.row_of[A]: 1}},
    )
    of.expire(11)
    assert gpus(of) == (4, 8, 8)


@pytest.mark.parametrize("bound", [True, False], ids=["bound", "not bound"])
@pytest.mark.parametrize(("stored", "left"), [(4, 4), (8, 0)], ids=["as it was", "larger"])
def test_on_one_node_both_calls_hold_what_the_larger_one_requests(stored: int, left: int, bound: bool) -> None:
    of = reserved(SMALL, A)
    for _ in range(3):
        again(of, SMALL, LARGE, A)
    assert gpus(of) == (0, 8, 8)
    of.pod_seen(pod("p", stored, owner="o", ranked=[A], on=A if bound else None), 1)
    assert (gpus(of), free(of, A, "pods")) == ((left, 8, 8), 109)
    of.pod_gone(LARGE)
    assert (gpus(of), of.usage.peers, of.usage._kinds) == ((8, 8, 8), {}, {})


def test_while_a_pod_is_ranked_again_nothing_is_held_for_it() -> None:
    of = reserved(SMALL, A)
    again(of, SMALL, LARGE, A, B)
    again(of, SMALL, LARGE, B)
    asked = reservation_request(admitted(SMALL))
    earlier = of.ledger.earlier(asked.key, A, asked.demand)
    assert earlier is not None
    with of.ledger.without(earlier):
        assert gpus(of) == (8, 8, 8)
    assert gpus(of) == (0, 0, 8)
    with suppress(ZeroDivisionError), of.ledger.without(earlier):
        raise ZeroDivisionError
    assert gpus(of) == (0, 0, 8)


def test_the_node_of_a_pod_that_is_ranked_again_may_be_deleted() -> None:
    of = reserved(SMALL, A)
    again(of, SMALL, LARGE, A)
    of.node_gone(A)
    asked = reservation_request(admitted(SMALL))
    earlier = of.ledger.earlier(asked.key, A, asked.demand)
    assert earlier is not None
    with of.ledger.without(earlier):
        assert A not in of.nodes.row_of
    of.node_seen(node(A))
    assert gpus(of) == (0, 8, 8)
    of.expire(10)
    assert gpus(of) == (8, 8, 8)


@pytest.mark.parametrize(
    ("asked", "node"),
    [
        pytest.param(pod("p", 4, owner="x"), A, id="another owner"),
        pytest.param(pod("p", 4, owner="o"), B, id="another node"),
        pytest.param(pod("p", 5, owner="o"), A, id="other GPUs"),
        pytest.param(pod("p", 4, owner="o", asks={"cpu": "3"}), A, id="other CPUs"),
    ],
)
def test_an_earlier_reservation_is_found_only_by_pod_node_and_demand(asked: dict[str, Any], node: str) -> None:
    of, request = reserved(SMALL, A), reservation_request(admitted(asked))
    assert of.ledger.earlier(request.key, node, request.demand) is None


def test_replicas_that_are_ranked_again_have_one_reservation_each_in_the_end() -> None:
    of = three()
    for _ in range(2):
        of.reserve(reservation_request(admitted(SMALL)), chosen(A), 0)
    again(of, SMALL, LARGE, B)
    again(of, SMALL, LARGE, C)
    of.pod_seen(pod("p1", 8, owner="o", ranked=[B]), 1)
    assert (gpus(of), of.ledger.counts) == ((4, 0, 0), Counts(2, 1))
    of.pod_seen(pod("p2", 8, owner="o", ranked=[C]), 1)
    assert (gpus(of), of.ledger.counts) == ((8, 0, 0), Counts(0, 2))


def test_a_pod_takes_its_own_reservation_before_one_of_a_second_call() -> None:
    """A stranger may guess the demand of an owner's next pod."""
    of = reserved(SMALL, A)
    again(of, SMALL, LARGE, B)
    of.reserve(reservation_request(admitted(LARGE)), chosen(B), 0)
    of.pod_seen(pod("large", 8, owner="o", ranked=[B]), 1)
    assert free(of, A) == 4
    of.pod_seen(pod("small", 4, owner="o", ranked=[A]), 1)
    assert (gpus(of), of.ledger.counts) == ((4, 0, 8), Counts(0, 2))


def test_the_reservations_of_both_calls_expire() -> None:
    of = reserved(SMALL, A)
    again(of, SMALL, LARGE, A, now=3)
    of.expire(10)
    assert of.ledger.counts == Counts(1, 0)
    of.expire(13)
    assert (gpus(of), of.ledger.counts, of.usage.peers) == ((8, 8, 8), Counts(0, 0), {})
    assert (of.ledger._reserved, of.ledger.parts._shared, of.usage._private) == ({}, {}, {})


def test_calls_for_one_pod_are_bounded_like_calls_for_many() -> None:
    of = reserved(SMALL, A)
    for _ in range(_MAX_OPEN + 10):
        again(of, SMALL, LARGE, B)
    assert of.ledger.counts == Counts(_MAX_OPEN, 0)


# --- forged reviews ---------------------------------------------------------------------------------------------------

_NODES = st.sampled_from([A, B, C])


class Forged(RuleBasedStateMachine):
    """Two states see the same pods. One also gets reviews by a stranger who knows all pods, and claims that they grew."""

    def __init__(self) -> None:
        super().__init__()
        self.of, self.attacked = three(), three()
        for each in (self.of, self.attacked):
            each.usage.seen_from("default")  # as its tenant sees it: private reservations count
        self.waiting: list[tuple[dict[str, Any], str]] = []
        """Pods that are not stored yet, and their nodes."""
        self.admitted = self.stored = 0

    @rule(gpus=st.integers(1, 2), at=_NODES)
    def admit(self, gpus: int, at: str) -> None:
        """Each has its own owner: with replicas of one owner, a second call could be for any of them."""
        self.admitted += 1
        made = pod("p", gpus, owner=f"o{self.admitted}")
        self.waiting.append((made, at))
        for each in (self.of, self.attacked):
            each.reserve(reservation_request(admitted(made)), chosen(at), 0)

    @rule(which=st.integers(0, 9), at=_NODES, forged=st.booleans())
    def call_again(self, which: int, at: str, forged: bool) -> None:
        small = [entry for entry in self.waiting if _size(entry[0]) <= 2]
        if not small:
            return
        made, before = entry = small[which % len(small)]
        larger = pod("p", _size(made) + 2, owner=made["metadata"]["ownerReferences"][0]["uid"])
        again(self.attacked, made, larger, at, node=before)
        if not forged:
            again(self.of, made, larger, at, node=before)
            self.waiting[self.waiting.index(entry)] = larger, at

    @rule(which=st.integers(0, 9), bound=st.booleans())
    def store(self, which: int, bound: bool) -> None:
        if self.waiting:
            made, at = self.waiting.pop(which % len(self.waiting))
            owner, self.stored = made["metadata"]["ownerReferences"][0]["uid"], self.stored + 1
            seen = pod(f"p{self.stored}", _size(made), owner=owner, ranked=[at], on=at if bound else None)
            for each in (self.of, self.attacked):
                each.pod_seen(seen, 0)

    @invariant()
    def what_is_promised_stays_promised(self) -> None:
        assert all(free(self.attacked, name) <= free(self.of, name) for name in (A, B, C))

    @invariant()
    def nothing_is_left_of_the_stranger_when_all_pods_were_seen(self) -> None:
        if not self.waiting:
            assert gpus(self.attacked) == gpus(self.of)
            assert self.attacked.ledger.counts == self.of.ledger.counts

    def teardown(self) -> None:
        for each in (self.of, self.attacked):
            each.expire(1000)
            assert (each.ledger.holders(), each.ledger._reserved, each.ledger.parts._shared) == ([], {}, {})
        assert gpus(self.attacked) == gpus(self.of)


def _size(made: dict[str, Any]) -> int:
    return int(made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])


TestForged = Forged.TestCase
TestForged.settings = settings(max_examples=150, stateful_step_count=20, deadline=None)
