"""The order of the nodes that can take a pod. By peers and preferences: `test_place_properties.py`."""

import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.placement.placed import names, placed
from tests.state.objects import admitted, state, stored
from webhook.kube.asked import AskedPod
from webhook.nodes.utilisation import UNKNOWN
from webhook.placement.settings import PlacementSettings

SHARED = {"nvidia.com/gpu.replicas": "4"}
BUSY = UNKNOWN._replace(measured=8, idle=1, utilisation=0.9, known=8)


def test_equal_nodes_are_ranked_by_name_and_ten_of_them_at_most() -> None:
    of = state([node(f"gpu-{i:03}") for i in range(300)])
    assert names(placed(of, pod("p"))) == [f"gpu-{i:03}" for i in range(10)]
    assert names(placed(of, pod("p"), settings=PlacementSettings(nodes=3))) == ["gpu-000", "gpu-001", "gpu-002"]


@pytest.mark.parametrize("strategy", ["spread", "apart"])
def test_a_burst_of_one_owner_is_spread_evenly(strategy: str) -> None:
    of = state([node(f"gpu-{i}") for i in range(4)])
    counts: dict[str, int] = {}
    for i in range(12):
        made = admitted(stored(f"p{i}", owner="o"))
        placement = placed(of, made, strategy)
        of.reserve(AskedPod(made, GPUS), placement, 0)
        counts[placement.nodes[0].node] = counts.get(placement.nodes[0].node, 0) + 1
    assert set(counts.values()) == {3}


def test_apart_leaves_empty_nodes_alone_where_others_are_as_far_from_its_peers() -> None:
    of = state([node("a"), node("b"), node("c")], [stored("x", 4, on="b"), stored("y", 5, on="c")])
    made = stored("p", 2, owner="o")
    assert names(placed(of, made, "spread"))[0] == "a"
    assert names(placed(of, made, "apart")) == names(placed(of, made, "pack")) == ["c", "b", "a"]
    of.pod_seen(stored("z", 1, on="c", owner="o"), 0)
    assert names(placed(of, made, "apart"))[-1] == "c", "but not where a replica is"


@pytest.mark.parametrize(
    "later", [pytest.param(False, id="before the first choice"), pytest.param(True, id="after it")]
)
def test_metrics_and_shared_gpus_count_once_they_are_known(*, later: bool) -> None:
    of = state([node(name) for name in "abc"])
    if later:
        assert names(placed(of, pod("p"), "spread")) == ["a", "b", "c"]
    of.node_seen(node("b", labels=SHARED))
    assert names(placed(of, pod("p"), "spread")) == ["a", "c", "b"]
    of.nodes.use_seen("a", BUSY)
    assert names(placed(of, pod("p"), "spread")) == ["c", "b", "a"]
    assert names(placed(of, pod("p", 2), "spread")) == ["c", "a", "b"], "slots of shared GPUs come after whole ones"


def test_metrics_alone_count() -> None:
    of = state([node("a"), node("b")])
    of.nodes.use_seen("a", BUSY)
    assert names(placed(of, pod("p"), "spread")) == ["b", "a"]


def test_ranked_nodes_have_their_free_gpus_and_weights_from_100_downwards() -> None:
    of = state([node("a"), node("b")], [stored("x", 3, on="b")])
    placement = placed(of, pod("p", 2))
    assert {(r.node, r.free) for r in placement.nodes} == {("a", 8), ("b", 5)}
    assert placement.weights[0] == 100
    assert list(placement.weights) == sorted(set(placement.weights), reverse=True)
    assert len(placement.weights) >= len(placement.nodes)
