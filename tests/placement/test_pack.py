"""Whole nodes are kept for later large pods, and replicas are kept apart while that uses none of the last ones."""

from typing import Any

import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.state.objects import GPU, admitted, placer, state, stored
from webhook.kube.asked import AskedPod
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.popular import View
from webhook.nodes.table import Columns
from webhook.placement.pack import Whole, whole_nodes
from webhook.placement.settings import PlacementSettings
from webhook.state.state import ClusterState


def ranked(of: ClusterState, made: dict[str, Any], strategy: str) -> list[str]:
    return [
        found.node for found in placer(of).place(AskedPod(made, GPUS), of.view(0), PlacementSettings(), strategy).nodes
    ]


def filled(nodes: int, whole: int) -> ClusterState:
    """One node has a replica of "o" and seven free GPUs, some nodes are whole, and the others are full."""
    names = [f"gpu-{number:02}" for number in range(nodes)]
    others = [stored(f"x-{name}", 8, on=name) for name in names[1 + whole :]]
    return state([node(name) for name in names], [stored("r", 1, on=names[0], owner="o"), *others])


@pytest.mark.parametrize(
    ("nodes", "whole", "first"),
    [
        pytest.param(2, 1, "gpu-01", id="of two nodes both are used"),
        pytest.param(19, 1, "gpu-01", id="the last whole one of nineteen"),
        pytest.param(20, 2, "gpu-01", id="two whole ones of twenty"),
        pytest.param(20, 1, "gpu-00", id="the last whole one of twenty stays whole"),
        pytest.param(59, 2, "gpu-00", id="two of fifty-nine stay whole"),
        pytest.param(59, 3, "gpu-01", id="but not a third"),
    ],
)
def test_replicas_are_kept_apart_while_more_whole_nodes_are_left_than_one_in_twenty(
    nodes: int, whole: int, first: str
) -> None:
    of = filled(nodes, whole)
    assert ranked(of, stored("p", owner="o"), "apart")[0] == first
    assert ranked(of, stored("p", owner="o"), "spread")[0] == "gpu-01", "spread takes the emptiest whatever it costs"


def test_the_last_whole_node_is_used_if_nothing_else_fits() -> None:
    of = filled(20, 1)
    of.pod_seen(stored("y", 7, on="gpu-00"), 0)
    assert ranked(of, stored("p", owner="o"), "apart") == ["gpu-01"]


def test_a_partly_used_node_without_a_replica_comes_before_one_with_a_replica_and_a_whole_one_last() -> None:
    of = filled(20, 1)
    of.pod_gone(stored("x-gpu-05", 8))
    of.pod_seen(stored("y", 2, on="gpu-05"), 0)
    assert ranked(of, stored("p", owner="o"), "apart") == ["gpu-05", "gpu-00", "gpu-01"]


def test_two_owners_of_four_pods_share_two_empty_nodes_evenly() -> None:
    of = state([node("a"), node("b")])
    for number in range(20):
        of.request_counts.bound(number, "team-a", PodRequests(((GPU, 8), ("pods", 1))), None)
    on: list[str] = []
    for number in range(8):
        made = admitted(stored(f"p{number}", owner="o" if number % 2 else "other"))
        placement = placer(of).place(AskedPod(made, GPUS), of.view(0), PlacementSettings(), "apart")
        of.reserve(AskedPod(made, GPUS), placement, 0)
        on.append(placement.nodes[0].node)
    assert (on.count("a"), on.count("b")) == (4, 4)


# --- which nodes are whole --------------------------------------------------------------------------------------------


def columns(capacity: int = 8) -> Columns:
    made = Columns()
    made.rows = 40
    made.add_resource(GPU)
    made.capacity[GPU][:40] = made.free[GPU][:40] = capacity
    return made


def test_shared_gpus_make_no_whole_node() -> None:
    of = columns()
    of.capacity[GPU][:10] = of.free[GPU][:10] = 32
    of.one[:10] = 2
    assert Whole(of, GPU).among(of, slice(0, 40)).tolist() == [False] * 10 + [True] * 30


def test_only_the_resources_that_a_pod_requests_count() -> None:
    of, seen = columns(), View(1, (GPU,))
    assert whole_nodes(of, seen, PodRequests((("cpu", 8), ("pods", 1)))) == []
    (found,) = whole_nodes(of, seen, PodRequests(((GPU, 1), ("cpu", 8))))
    assert whole_nodes(of, seen, PodRequests(((GPU, 2),))) == [found], "made once for a view"
