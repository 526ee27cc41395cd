"""The order of the nodes that can take a pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.objects import admitted, node, pod, state
from tests.placement.placed import affinity, expression, names, placed
from webhook.cluster.pods import reservation_request
from webhook.cluster.utilisation import UNKNOWN
from webhook.placement.settings import PlacementSettings


def test_equal_nodes_are_ranked_by_name_and_ten_of_them_at_most() -> None:
    of = state([node(f"gpu-{i:03}") for i in range(300)])
    assert names(placed(of, pod("p"))) == [f"gpu-{i:03}" for i in range(10)]
    assert names(placed(of, pod("p"), settings=PlacementSettings(nodes=3))) == ["gpu-000", "gpu-001", "gpu-002"]


@pytest.mark.parametrize("strategy", ["spread", "apart"])
def test_the_fewest_peers_come_first(strategy: str) -> None:
    of = state([node("a"), node("b"), node("c")], [pod("x", on="a", owner="o"), pod("y", on="a", owner="o")])
    of.pod_seen(pod("z", on="b", owner="o"), 0)
    placement = placed(of, pod("p", owner="o"), strategy)
    assert [(r.node, r.peers) for r in placement.nodes] == [("c", 0), ("b", 1), ("a", 2)]


def test_spread_does_not_count_the_pods_of_others_as_peers() -> None:
    of = state([node("a"), node("b")], [pod("x", on="b", owner="other")])
    placement = placed(of, pod("p", owner="o"), "spread")
    assert [(r.node, r.peers) for r in placement.nodes] == [("a", 0), ("b", 0)]


@pytest.mark.parametrize("strategy", ["spread", "apart"])
def test_a_burst_of_one_owner_is_spread_evenly(strategy: str) -> None:
    of = state([node(f"gpu-{i}") for i in range(4)])
    counts: dict[str, int] = {}
    for i in range(12):
        made = pod(f"p{i}", owner="o")
        placement = placed(of, admitted(made), strategy)
        of.reserve(reservation_request(admitted(made)), placement, 0)
        counts[placement.nodes[0].node] = counts.get(placement.nodes[0].node, 0) + 1
    assert set(counts.values()) == {3}


def test_apart_leaves_empty_nodes_alone_where_others_are_as_far_from_its_peers() -> None:
    of = state([node("a"), node("b"), node("c")], [pod("x", 4, on="b"), pod("y", 5, on="c")])
    made = pod("p", 2, owner="o")
    assert names(placed(of, made, "spread"))[0] == "a"
    assert names(placed(of, made, "apart")) == names(placed(of, made, "pack")) == ["c", "b", "a"]
    of.pod_seen(pod("z", 1, on="c", owner="o"), 0)
    assert names(placed(of, made, "apart"))[-1] == "c", "but not where a replica is"


def test_pack_fills_the_fullest_node_that_fits() -> None:
    of = state([node("a"), node("b"), node("c")], [pod("x", 4, on="b"), pod("y", 6, on="c")])
    assert names(placed(of, pod("p", 2)))[0] == "c"
    assert names(placed(of, pod("p", 4)))[0] == "b"
    assert names(placed(of, pod("p", 8))) == ["a"]


def test_the_pods_own_preferences_come_first_by_weight() -> None:
    nodes = [node("a"), node("b", labels={"fast": "yes"}), node("c", labels={"near": "yes"}), node("d")]
    wish = affinity(preferred=[(10, expression("fast", "Exists")), (20, expression("near", "Exists"))])
    of = state(nodes, [pod("x", 1, on="d")])
    assert names(placed(of, pod("p", affinity=wish))) == ["c", "b", "d", "a"]
    assert names(placed(of, pod("p", affinity=wish), "spread")) == ["c", "b", "a", "d"]


def test_a_preference_that_no_node_meets_changes_nothing() -> None:
    of = state([node("a"), node("b")])
    wish = affinity(preferred=[(10, expression("fast", "Exists")), (5, {})])
    assert names(placed(of, pod("p", affinity=wish))) == names(placed(of, pod("p")))


@pytest.mark.parametrize("strategy", ["spread", "pack"])
def test_nodes_without_gpus_fit_for_use_come_last(strategy: str) -> None:
    of = state([node("a"), node("b"), node("c")], [pod("x", 2, on="c", owner="o")])
    of.nodes.use_seen("a", UNKNOWN._replace(measured=8, idle=8, utilisation=0.0, avoid=1, known=8))
    placement = placed(of, pod("p", owner="o"), strategy)
    assert names(placement)[-1] == "a"


@pytest.mark.parametrize("later", [False, True], ids=["before the first choice", "after it"])
def test_metrics_and_shared_gpus_count_once_they_are_known(*, later: bool) -> None:
    of = state([node(name) for name in "abc"])
    if later:
        assert names(placed(of, pod("p"), "spread")) == ["a", "b", "c"]
    of.node_seen(node("b", labels={"nvidia.com/gpu.replicas": "4"}))
    assert names(placed(of, pod("p"), "spread")) == ["a", "c", "b"]
    of.nodes.use_seen("a", UNKNOWN._replace(measured=8, idle=1, utilisation=0.9, known=8))
    assert names(placed(of, pod("p"), "spread")) == ["c", "b", "a"]
    assert names(placed(of, pod("p", 2), "spread")) == ["c", "a", "b"], "slots of shared GPUs come after whole ones"


@pytest.mark.parametrize(
    "known", [{"measured": 8, "idle": 1, "utilisation": 0.9, "known": 8}, None], ids=["metrics", "sharing"]
)
def test_metrics_alone_and_shared_gpus_alone_count(known: dict[str, Any] | None) -> None:
    of = state([node(name) for name in "ab"])
    if known is None:
        of.node_seen(node("a", labels={"nvidia.com/gpu.replicas": "4"}))
    else:
        of.nodes.use_seen("a", UNKNOWN._replace(**known))
    assert names(placed(of, pod("p"), "spread")) == ["b", "a"]


def test_ranked_nodes_have_their_free_gpus_and_weights_from_100_downwards() -> None:
    of = state([node("a"), node("b")], [pod("x", 3, on="b")])
    placement = placed(of, pod("p", 2))
    assert {(r.node, r.free) for r in placement.nodes} == {("a", 8), ("b", 5)}
    assert placement.weights[0] == 100
    assert list(placement.weights) == sorted(set(placement.weights), reverse=True)
    assert len(placement.weights) >= len(placement.nodes)
