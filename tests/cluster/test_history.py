"""Recent demands: frequent ones come first, old ones fade, and their number is bounded."""

from __future__ import annotations

import pytest

from tests.cluster.objects import GPU, admitted, node, pod, state
from webhook.cluster.history import History
from webhook.cluster.node_table import Demand
from webhook.cluster.pods import reservation_request
from webhook.framework.cluster_view import Placement, Ranked


def demand(gpus: int, cpu: int = 0) -> Demand:
    requests = {"cpu": cpu, GPU: gpus, "pods": 1}
    return Demand(tuple((name, amount) for name, amount in requests.items() if amount))


def test_the_most_frequent_demand_comes_first_and_shares_add_up() -> None:
    history = History()
    for gpus in (1, 1, 1, 8):
        history.add(demand(gpus), None)
    popular = history.popular({})
    assert [(found.demand, found.share) for found in popular] == [(demand(1), 0.75), (demand(8), 0.25)]


def test_demands_that_differ_in_details_count_as_one() -> None:
    history = History()
    for cpu in (66_100, 66_900, 72_000):
        history.add(demand(8, cpu), None)
    assert [(found.demand, found.share) for found in history.popular({})] == [(demand(8, 68_333), 1.0)]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param((demand(7, 64_000), None), id="another number of GPUs"),
        pytest.param((demand(8, 16_000), None), id="a quarter of the CPU"),
        pytest.param((demand(8), None), id="no CPU"),
        pytest.param((demand(8, 64_000), ("H100",)), id="one model only"),
    ],
)
def test_demands_that_need_another_node_count_apart(other: tuple[Demand, tuple[str, ...] | None]) -> None:
    history = History()
    history.add(demand(8, 64_000), None)
    history.add(*other)
    assert sorted(found.share for found in history.popular({"H100": 1})) == [0.5, 0.5]


def test_a_mean_stays_the_mean_while_it_fades() -> None:
    history = History()
    for number in range(10_000):
        history.add(demand(1, 10_000 + 2000 * (number % 2)), None)
    assert [found.demand for found in history.popular({})] == [demand(1, 11_000)]


def test_models_that_pods_are_confined_to_are_given_by_number() -> None:
    history = History()
    history.add(demand(1), ("H100", "gone"))
    history.add(demand(1), None)
    assert [found.models for found in history.popular({"H100": 3})] == [None, (3,)]


def test_old_demands_fade() -> None:
    history = History()
    for _ in range(1000):
        history.add(demand(8), None)
    for _ in range(20_000):
        history.add(demand(1), None)
    assert [found.demand for found in history.popular({}) if found.share > 0.01] == [demand(1)]


def test_no_tenant_can_fill_the_history() -> None:
    history = History()
    for i in range(50_000):
        history.add(demand(1 + i), None)
    assert len(history._groups) < 2000
    assert len(history.popular({})) <= 64


def test_the_version_rises_often_at_first_and_seldom_later() -> None:
    history = History()
    versions = []
    for _ in range(6000):
        history.add(demand(1), None)
        versions.append(history.version)
    assert versions[9] >= 3
    assert versions[-1] - versions[3000] <= 6
    assert versions[-1] > versions[3000]


@pytest.mark.parametrize("ranked", [True, False], ids=["a pod with ranked nodes", "a pod without"])
def test_every_pod_with_gpus_counts_once(ranked: bool) -> None:
    of = state([node("a")])
    nodes = ["a"] if ranked else []
    if ranked:
        of.reserve(reservation_request(admitted(pod("p"))), Placement((Ranked("a", 8, 0, 1.0),), "pack"), 0)
    for made in (
        pod("p", ranked=nodes),
        pod("p", ranked=nodes, unschedulable=True),
        pod("p", ranked=nodes, on="a"),
        pod("p", ranked=nodes, on="a", phase="Running"),
        pod("p", ranked=nodes, on="a", phase="Succeeded"),
    ):
        of.pod_seen(made, 0)
    of.pod_seen(pod("q", 0, on="a"), 0)
    assert of.history._total == 1


def test_a_reservation_alone_does_not_count_until_its_pod_is_seen() -> None:
    """Anybody who reaches the port can send reviews: a pod that is never stored is no demand."""
    of = state([node("a")])
    for _ in range(20):
        of.reserve(reservation_request(admitted(pod("p"))), Placement((Ranked("a", 8, 0, 1.0),), "pack"), 0)
    assert of.history._total == 0
    of.pod_seen(pod("p", ranked=["a"]), 1)
    assert of.history._total == 1
