"""Kinds of pods that run: frequent ones come first, what ended is forgotten, and no namespace outweighs all others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.state.objects import GPU, admitted, state, stored
from webhook.framework.cluster_view import Placement, Ranked
from webhook.kube.asked import AskedPod
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.popular import PopularRequests, RequestCounts


def pod_requests(gpus: int, cpu: int = 0) -> PodRequests:
    requests = {"cpu": cpu, GPU: gpus, "pods": 1}
    return PodRequests(tuple((name, amount) for name, amount in requests.items() if amount))


def running(*pods: tuple[str, PodRequests], models: tuple[str, ...] | None = None) -> RequestCounts:
    """The counts of these pods: namespace and requests of each."""
    counts = RequestCounts()
    for uid, (namespace, asked) in enumerate(pods):
        counts.bound(uid, namespace, asked, models)
    return counts


def shares(counts: RequestCounts) -> list[tuple[PodRequests, float]]:
    return [(found.pod_requests, found.weight) for found in counts.popular({}, (GPU,))]


def test_the_most_frequent_kind_of_pod_comes_first_and_shares_add_up() -> None:
    assert shares(running(*[("a", pod_requests(1))] * 3, ("a", pod_requests(8)))) == [
        (pod_requests(1), 0.75),
        (pod_requests(8), 0.25),
    ]


def test_kinds_of_pods_that_differ_in_details_count_as_one() -> None:
    counts = running(*[("a", pod_requests(8, cpu)) for cpu in (66_100, 66_900, 72_000)])
    assert shares(counts) == [(pod_requests(8, 68_333), 1.0)]


@pytest.mark.parametrize(
    ("asked", "models"),
    [
        pytest.param(pod_requests(7, 64_000), None, id="another number of GPUs"),
        pytest.param(pod_requests(8, 16_000), None, id="a quarter of the CPU"),
        pytest.param(pod_requests(8), None, id="no CPU"),
        pytest.param(pod_requests(8, 64_000), ("H100",), id="one model only"),
    ],
)
def test_kinds_of_pods_that_need_another_node_count_apart(asked: PodRequests, models: tuple[str, ...] | None) -> None:
    counts = running(("a", pod_requests(8, 64_000)))
    counts.bound("other", "a", asked, models)
    assert sorted(found.weight for found in counts.popular({"H100": 1}, (GPU,))) == [0.5, 0.5]


def test_models_that_pods_are_confined_to_are_given_by_number() -> None:
    counts = running(("a", pod_requests(1)), models=("H100", "gone"))
    counts.bound("any", "a", pod_requests(1), None)
    assert {found.models for found in counts.popular({"H100": 3}, (GPU,))} == {None, (3,)}


def test_a_pod_that_ends_is_forgotten() -> None:
    counts = running(*[("a", pod_requests(8))] * 1000, ("b", pod_requests(1)))
    for uid in range(1000):
        counts.gone(uid)
        counts.gone(uid)
    assert shares(counts) == [(pod_requests(1), 1.0)]
    counts.gone(1000)
    assert (counts.popular({}, (GPU,)), counts._of_pod, counts._groups) == ((), {}, {})


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
    counts = running(
        *[(name, pod_requests(8 if name == "a" else 1)) for name, count in pods.items() for _ in range(count)]
    )
    assert dict(shares(counts))[pod_requests(8)] == pytest.approx(part)


@given(st.permutations(range(30)))
def test_any_order_of_events_gives_the_same_numbers(order: list[int]) -> None:
    def popular(uids: list[int]) -> tuple[PopularRequests, ...]:
        counts = RequestCounts()
        for uid in uids:
            counts.bound(uid, f"team-{uid % 3}", pod_requests(1 + uid % 4, 1000 * uid), None)
        for uid in range(0, 30, 5):
            counts.gone(uid)
        return counts.popular({}, (GPU,))

    assert popular(order) == popular(list(range(30)))


def test_at_most_64_demands_are_popular() -> None:
    assert (
        len(running(*[("a", pod_requests(1 << i, 1 << j)) for i in range(20) for j in range(20)]).popular({}, (GPU,)))
        == 64
    )


def test_the_version_rises_often_at_first_and_seldom_later() -> None:
    counts = RequestCounts()
    versions = []
    for uid in range(6000):
        counts.bound(uid, "a", pod_requests(1), None)
        versions.append(counts.version)
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
        found.append(len(of.request_counts.popular({}, (GPU,))))
    of.pod_seen(stored("q", 0, on="a"), 0)
    assert found == [0, 0, 0, 1, 0]
    assert of.request_counts.popular({}, (GPU,)) == ()


def test_pods_without_a_gpu_count_for_nothing() -> None:
    """They may ask for anything: the kubelet overlooks extended resources that its node does not have."""
    other = PodRequests((("cpu", 1), ("example.com/fuse", 1), ("pods", 1)))
    counts = running(*[("b", other)] * 1000, *[("c", other)] * 1000, ("a", pod_requests(8)))
    assert shares(counts) == [(pod_requests(8), 1.0)]


def test_pods_that_never_ran_count_for_nothing() -> None:
    """8,192 pods created and deleted left the kinds of pods of all other tenants 0.8 % of the weight, and 1,000 that bind
    themselves to a node that does not exist 6 %."""
    of = state([node("a")])
    of.pod_seen(stored("honest", 8, on="a", phase="Running"), 0)
    for number in range(200):
        of.pod_seen(stored(f"nowhere-{number}", 1, on="nowhere"), 0)
        made = stored(f"p-{number}", 1, ranked=["a"])
        of.pod_seen(made, 0)
        of.pod_gone(made)
    assert [(found.pod_requests.amount(GPU), found.weight) for found in of.request_counts.popular({}, (GPU,))] == [
        (8, 1.0)
    ]
