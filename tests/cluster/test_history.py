"""Demands seen lately: popular ones first, old ones fading, however many there are."""

from __future__ import annotations

import pytest

from tests.cluster.objects import GPU, admitted, node, pod, state
from webhook.cluster.columns import Demand
from webhook.cluster.history import History
from webhook.interface import Placement, Ranked


def demand(gpus: int) -> Demand:
    return Demand(((GPU, gpus), ("pods", 1)))


def test_the_most_popular_demand_comes_first_and_shares_add_up() -> None:
    history = History()
    for gpus in (1, 1, 1, 8):
        history.add(demand(gpus), None)
    popular = history.popular({})
    assert [(found.demand, found.share) for found in popular] == [(demand(1), 0.75), (demand(8), 0.25)]


def test_the_models_that_pods_are_confined_to_are_told_by_number() -> None:
    history = History()
    history.add(demand(1), ("H100", "gone"))
    history.add(demand(1), None)
    assert [found.models for found in history.popular({"H100": 3})] == [None, (3,)]


def test_what_is_not_asked_for_any_more_fades() -> None:
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
    assert len(history._counts) < 2000
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


@pytest.mark.parametrize("promised", [True, False], ids=["a pod that was promised a node", "a pod that was not"])
def test_every_pod_with_gpus_counts_once(promised: bool) -> None:
    of = state([node("a")])
    nodes = ["a"] if promised else []
    if promised:
        of.reserve(admitted(pod("p")), Placement((Ranked("a", 8, 0, 1.0),), "pack"), 0)
    for made in (
        pod("p", promised=nodes),
        pod("p", promised=nodes, unschedulable=True),
        pod("p", promised=nodes, on="a"),
        pod("p", promised=nodes, on="a", phase="Running"),
        pod("p", promised=nodes, on="a", phase="Succeeded"),
    ):
        of.pod_seen(made, 0)
    of.pod_seen(pod("q", 0, on="a"), 0)
    assert sum(of.history._counts.values()) == 1
