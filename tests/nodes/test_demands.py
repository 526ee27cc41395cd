"""Demands of the pods that run: frequent ones come first, what ended is forgotten, and no namespace outweighs all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.state.objects import GPU, admitted, state, stored
from webhook.framework.cluster_view import Placement, Ranked
from webhook.kube.asked import AskedPod
from webhook.kube.pod_requests import Demand
from webhook.nodes.demands import Demands, PopularDemand


def demand(gpus: int, cpu: int = 0) -> Demand:
    requests = {"cpu": cpu, GPU: gpus, "pods": 1}
    return Demand(tuple((name, amount) for name, amount in requests.items() if amount))


def running(*pods: tuple[str, Demand], models: tuple[str, ...] | None = None) -> Demands:
    """Demands of these pods: namespace and demand of each."""
    demands = Demands()
    for uid, (namespace, asked) in enumerate(pods):
        demands.bound(uid, namespace, asked, models)
    return demands


def shares(demands: Demands) -> list[tuple[Demand, float]]:
    return [(found.demand, found.weight) for found in demands.popular({}, (GPU,))]


def test_the_most_frequent_demand_comes_first_and_shares_add_up() -> None:
    assert shares(running(*[("a", demand(1))] * 3, ("a", demand(8)))) == [(demand(1), 0.75), (demand(8), 0.25)]


def test_demands_that_differ_in_details_count_as_one() -> None:
    demands = running(*[("a", demand(8, cpu)) for cpu in (66_100, 66_900, 72_000)])
    assert shares(demands) == [(demand(8, 68_333), 1.0)]


@pytest.mark.parametrize(
    ("asked", "models"),
    [
        pytest.param(demand(7, 64_000), None, id="another number of GPUs"),
        pytest.param(demand(8, 16_000), None, id="a quarter of the CPU"),
        pytest.param(demand(8), None, id="no CPU"),
        pytest.param(demand(8, 64_000), ("H100",), id="one model only"),
    ],
)
def test_demands_that_need_another_node_count_apart(asked: Demand, models: tuple[str, ...] | None) -> None:
    demands = running(("a", demand(8, 64_000)))
    demands.bound("other", "a", asked, models)
    assert sorted(found.weight for found in demands.popular({"H100": 1}, (GPU,))) == [0.5, 0.5]


def test_models_that_pods_are_confined_to_are_given_by_number() -> None:
    demands = running(("a", demand(1)), models=("H100", "gone"))
    demands.bound("any", "a", demand(1), None)
    assert {found.models for found in demands.popular({"H100": 3}, (GPU,))} == {None, (3,)}


def test_a_pod_that_ends_is_forgotten() -> None:
    demands = running(*[("a", demand(8))] * 1000, ("b", demand(1)))
    for uid in range(1000):
        demands.gone(uid)
        demands.gone(uid)
    assert shares(demands) == [(demand(1), 1.0)]
    demands.gone(1000)
    assert (demands.popular({}, (GPU,)), demands._of_pod, demands._groups) == ((), {}, {})


@pytest.mark.parametrize(
    ("pods", "part"),
    [
        pytest.param({"a": 4}, 1.0, id="alone"),
        pytest.param({"a": 1, "b": 2, "c": 1}, 0.25, id="less than half"),
        pytest.param({"a": 8192, "b": 3}, 0.5, id="more than all others"),
        pytest.param({"a": 8192, "b": 1, "c": 2}, 0.5, id="more than all others together"),
        pytest.param({"a": 4, "b": 3, "c": 3}, 0.4, id="the largest of three"),
    ],
)
def test_a_namespace_weighs_by_its_pods_and_at_most_as_much_as_all_others(pods: dict[str, int], part: float) -> None:
    demands = running(*[(name, demand(8 if name == "a" else 1)) for name, count in pods.items() for _ in range(count)])
    assert dict(shares(demands))[demand(8)] == pytest.approx(part)


@given(st.permutations(range(30)))
def test_any_order_of_events_gives_the_same_numbers(order: list[int]) -> None:
    def popular(uids: list[int]) -> tuple[PopularDemand, ...]:
        demands = Demands()
        for uid in uids:
            demands.bound(uid, f"team-{uid % 3}", demand(1 + uid % 4, 1000 * uid), None)
        for uid in range(0, 30, 5):
            demands.gone(uid)
        return demands.popular({}, (GPU,))

    assert popular(order) == popular(list(range(30)))


def test_at_most_64_demands_are_popular() -> None:
    assert (
        len(running(*[("a", demand(1 << i, 1 << j)) for i in range(20) for j in range(20)]).popular({}, (GPU,))) == 64
    )


def test_the_version_rises_often_at_first_and_seldom_later() -> None:
    demands = Demands()
    versions = []
    for uid in range(6000):
        demands.bound(uid, "a", demand(1), None)
        versions.append(demands.version)
    assert versions[9] >= 3
    assert 0 < versions[-1] - versions[3000] <= 6


# --- in a cluster state -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ranked", [pytest.param(True, id="a pod with ranked nodes"), pytest.param(False, id="a pod without")]
)
def test_a_pod_with_gpus_counts_while_it_runs(ranked: bool) -> None:
    of = state([node("a")])
    nodes = ["a"] if ranked else []
    if ranked:
        of.reserve(AskedPod(admitted(stored("p")), GPUS), Placement((Ranked("a", 8, 0, 1.0),), "pack"), 0)
    found = []
    for made in (
        stored("p", ranked=nodes),
        stored("p", ranked=nodes, unschedulable=True),
        stored("p", ranked=nodes, on="a"),
        stored("p", ranked=nodes, on="a", phase="Running"),
        stored("p", ranked=nodes, on="a", phase="Succeeded"),
    ):
        of.pod_seen(made, 0)
        found.append(len(of.demands.popular({}, (GPU,))))
    of.pod_seen(stored("q", 0, on="a"), 0)
    assert found == [0, 0, 0, 1, 0]
    assert of.demands.popular({}, (GPU,)) == ()


def test_pods_without_a_gpu_count_for_nothing() -> None:
    """They may ask for anything: the kubelet overlooks extended resources that its node does not have."""
    other = Demand((("cpu", 1), ("example.com/fuse", 1), ("pods", 1)))
    demands = running(*[("b", other)] * 1000, *[("c", other)] * 1000, ("a", demand(8)))
    assert shares(demands) == [(demand(8), 1.0)]


def test_pods_that_never_ran_count_for_nothing() -> None:
    """8,192 pods created and deleted left the demands of all other tenants 0.8 % of the weight, and 1,000 that bind
    themselves to a node that does not exist 6 %."""
    of = state([node("a")])
    of.pod_seen(stored("honest", 8, on="a", phase="Running"), 0)
    for number in range(200):
        of.pod_seen(stored(f"nowhere-{number}", 1, on="nowhere"), 0)
        made = stored(f"p-{number}", 1, ranked=["a"])
        of.pod_seen(made, 0)
        of.pod_gone(made)
    assert [(found.demand.amount(GPU), found.weight) for found in of.demands.popular({}, (GPU,))] == [(8, 1.0)]
