"""The arrows of the diagram in the ledger, and what must not change."""

from typing import Any

import pytest

from tests.cluster.objects import admitted, free, pod
from tests.cluster.reserved import A, B, chosen, free_cpu, gpus, reserved, three
from tests.placement.placed import affinity, expression
from webhook.cluster.ledger import Counts
from webhook.cluster.pods import reservation_request
from webhook.framework.cluster_view import Placement, Ranked

# --- what must not change ---------------------------------------------------------------------------------------------


def test_a_placement_without_nodes_reserves_nothing() -> None:
    of = three()
    of.reserve(reservation_request(admitted(pod("p"))), Placement((), "pack", "no node fits"), 0)
    assert of.ledger.counts == Counts(0, 0)
    assert gpus(of) == (8, 8, 8)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(pod("p", ranked=[A], prefers=[]), id="the spec prefers no node"),
        pytest.param(pod("p", ranked=[A], prefers=[B, A]), id="the spec prefers another node more"),
        pytest.param(pod("p", ranked=[A], prefers=[B]), id="the spec prefers another node only"),
        pytest.param(pod("p", ranked=[A], schedulerName="mine"), id="no node is chosen for another scheduler's pod"),
        pytest.param(pod("p", ranked=[A], schedulingGates=[{"name": "g"}]), id="no node is chosen for a gated pod"),
    ],
)
def test_an_annotation_that_the_spec_does_not_confirm_holds_nothing(made: dict[str, Any]) -> None:
    of = three()
    of.pod_seen(made, 0)
    assert gpus(of) == (8, 8, 8)
    assert of.ledger.counts == Counts(0, 0)


def test_a_pod_without_a_gpu_that_has_ranked_nodes_is_held_there() -> None:
    """`placement.everyPod`. Its demand does not count as a recent GPU demand."""
    of = three()
    free = free_cpu(of, A)
    made = pod("p", gpus=0, ranked=[A])
    of.reserve(reservation_request(admitted(made)), Placement((Ranked(A, 0, 0, 1.0),), "pack"), 0)
    of.pod_seen(made, 1)
    assert (free_cpu(of, A), of.ledger.counts) == (free - 4000, Counts(0, 1))
    of.pod_seen(pod("p", gpus=0, ranked=[A], on=A), 2)
    assert (free_cpu(of, A), of.ledger.counts) == (free - 4000, Counts(0, 0))
    assert of.ledger.honoured["first"] == 1
    assert of.demands.popular({}, ("nvidia.com/gpu",)) == ()


@pytest.mark.parametrize("seen_first", [True, False], ids=["seen, then bound", "seen bound at once"])
def test_a_pod_that_is_bound_where_it_was_reserved_changes_nothing_there(*, seen_first: bool) -> None:
    of = reserved(pod("p", owner="o"), A)
    position, peers = of.usage.changes.position, {"team-a/o": dict(of.usage.peers["team-a/o"])}
    if seen_first:
        of.pod_seen(pod("p", owner="o", ranked=[A]), 1)
    of.pod_seen(pod("p", owner="o", ranked=[A], on=A), 2)
    assert (of.usage.changes.position, of.usage.peers) == (position, peers)
    assert (gpus(of), of.ledger.counts) == ((7, 8, 8), Counts(0, 0))
    of.expire(100)
    assert gpus(of) == (7, 8, 8)
    of.pod_gone(pod("p", owner="o", on=A))
    assert (gpus(of), of.usage.peers, of.usage._kinds) == ((8, 8, 8), {}, {})


def test_a_pod_that_asks_for_more_cpu_once_it_is_bound_holds_that() -> None:
    of = reserved(pod("p", owner="o"), A)
    of.pod_seen(pod("p", owner="o", ranked=[A], on=A, asks={"cpu": "5"}), 1)
    assert (free_cpu(of, A), gpus(of), of.ledger.counts) == (91_000, (7, 8, 8), Counts(0, 0))


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", '{"nodes":null}', '{"nodes":7}', '{"nodes":[[]]}', '{"nodes":[null]}', "x" * 100_000],
    ids=["empty", "cut", "null", "a list", "no nodes", "a number", "a node without a name", "a null node", "too long"],
)
def test_a_malformed_annotation_holds_nothing(text: str) -> None:
    made = pod("p", ranked=[A])
    made["metadata"]["annotations"]["gpu-admission.io/decision"] = text
    of = three()
    of.pod_seen(made, 0)
    assert of.ledger.counts == Counts(0, 0)


def test_another_pod_does_not_use_up_a_reservation() -> None:
    of = reserved(pod("p", owner="o1"), A)
    of.pod_seen(pod("q", owner="o2", ranked=[A]), 1)
    assert of.ledger.counts == Counts(1, 1)
    assert gpus(of) == (6, 8, 8)


def test_a_pod_with_another_demand_does_not_use_up_a_reservation() -> None:
    of = reserved(pod("p", 2, owner="o"), A)
    of.pod_seen(pod("q", 1, owner="o", ranked=[A]), 1)
    assert of.ledger.counts == Counts(1, 1)


# --- reserved ---------------------------------------------------------------------------------------------------------


def test_reserve_holds_the_demand_on_the_first_node() -> None:
    of = reserved(pod("p", 2), A, B)
    assert gpus(of) == (6, 8, 8)
    assert of.ledger.counts == Counts(1, 0)


def test_a_reservation_is_a_peer_of_its_owner() -> None:
    of = reserved(pod("p", owner="o"), B)
    assert of.usage.peers == {"team-a/o": {of.nodes.row_of[B]: 1}}


def test_a_reservation_expires() -> None:
    of = reserved(pod("p", owner="o"), A)
    of.expire(9.9)
    assert gpus(of) == (7, 8, 8)
    of.expire(10.0)
    assert gpus(of) == (8, 8, 8)
    assert of.ledger.counts == Counts(0, 0)
    assert of.ledger.ended["expired"] == 1
    assert not of.ledger._reserved, "no rest is kept"
    assert not of.usage.peers


def test_a_seen_pod_does_not_keep_later_reservations_from_expiring() -> None:
    of = reserved(pod("seen", ranked=[A]), A)
    of.reserve(reservation_request(admitted(pod("refused"))), chosen(B), 0)
    of.pod_seen(pod("seen", ranked=[A]), 1)
    of.expire(10.0)
    assert gpus(of) == (7, 8, 8)
    assert of.ledger.counts == Counts(0, 1)


def test_a_reservation_for_other_gpus_of_the_same_owner_is_not_used_up() -> None:
    of = reserved(pod("p", gpus=1), A)
    of.reserve(reservation_request(admitted(pod("p", gpus=2))), chosen(A), 0)
    of.pod_seen(pod("p", gpus=2, ranked=[A]), 1)
    assert of.ledger.counts == Counts(1, 1)
    of.expire(10.0)
    assert (gpus(of), of.ledger.counts) == ((6, 8, 8), Counts(0, 1))


def test_a_pod_that_is_seen_after_its_reservation_expired_is_held_again() -> None:
    made = pod("p", ranked=[A])
    of = reserved(made, A)
    of.expire(10.0)
    of.pod_seen(made, 11)
    assert gpus(of) == (7, 8, 8)
    assert of.ledger.counts == Counts(0, 1)


def test_a_view_ends_reservations_that_expired() -> None:
    of = reserved(pod("p"), A)
    of.view(31.0)
    assert gpus(of) == (8, 8, 8)


# --- reserved -> seen -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(pod("p", owner="o", ranked=[A, B]), id="of a ReplicaSet, known by its controller"),
        pytest.param(pod("p", ranked=[A, B]), id="on its own, known by its name"),
    ],
)
def test_a_pod_that_is_seen_uses_up_its_reservation(made: dict[str, Any]) -> None:
    of = reserved(made, A, B)
    of.pod_seen(made, 1)
    assert of.ledger.counts == Counts(0, 1)
    assert gpus(of) == (7, 8, 8)


def test_a_pod_without_an_owner_is_matched_by_its_generated_name() -> None:
    made = pod("p-x7f2k", ranked=[A])
    made["metadata"]["generateName"] = "p-"
    of = reserved(made, A)
    of.pod_seen(made, 1)
    assert of.ledger.counts == Counts(0, 1)


def test_a_pod_of_another_replica_is_held_without_a_reservation() -> None:
    of = three()
    of.pod_seen(pod("p", 4, ranked=[B, A]), 0)
    assert of.ledger.counts == Counts(0, 1)
    assert gpus(of) == (8, 4, 8)


def test_equal_reservations_are_used_up_one_by_one() -> None:
    of = three()
    for _ in range(3):
        of.reserve(reservation_request(admitted(pod("p", owner="o"))), chosen(A), 0)
    of.pod_seen(pod("p1", owner="o", ranked=[A]), 1)
    of.pod_seen(pod("p2", owner="o", ranked=[A]), 1)
    of.pod_seen(pod("p2", owner="o", ranked=[A]), 2)  # the same again
    assert of.ledger.counts == Counts(1, 2)
    assert gpus(of) == (5, 8, 8)


def test_of_reservations_with_equal_gpus_a_pod_uses_up_the_one_of_its_demand() -> None:
    of = three()
    small, large = (pod("p", owner="o", ranked=[A], asks={"cpu": cpu}) for cpu in ("4", "20"))
    for each in (small, large):
        of.reserve(reservation_request(admitted(each)), chosen(A), 0)
    of.usage.seen_from("team-a")
    held = free(of, A, "cpu")
    of.pod_seen(large, 1)
    assert (free(of, A, "cpu"), of.ledger.counts) == (held, Counts(1, 1))


def test_a_sidecar_that_was_added_after_us_is_held_and_the_reservation_is_used_up() -> None:
    made = pod("p", owner="o", ranked=[A])
    of = reserved(made, A)
    grown = pod("p", owner="o", ranked=[A], asks={"cpu": "5"})
    of.pod_seen(grown, 1)
    assert of.ledger.counts == Counts(0, 1)
    assert gpus(of) == (7, 8, 8)
    assert free(of, A, "cpu") == 91_000
    of.pod_seen({**grown, "spec": {**grown["spec"], "nodeName": A}}, 2)
    assert free(of, A, "cpu") == 91_000


def test_a_required_node_is_a_reservation_as_well() -> None:
    made = pod("p", ranked=[A], prefers=[])
    made["spec"]["affinity"] = affinity(expression("metadata.name", "In", A, part="matchFields"))
    of = three()
    of.pod_seen(made, 0)
    assert gpus(of) == (7, 8, 8)


def test_a_node_that_is_preferred_by_its_host_name_is_a_reservation_as_well() -> None:
    made = pod("p", ranked=[A])
    terms = made["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    terms[0]["preference"] = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [A]}]}
    of = three()
    of.pod_seen(made, 0)
    assert gpus(of) == (7, 8, 8)
