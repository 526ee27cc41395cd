"""GPU metrics count in every strategy, and never refuse a pod."""

from typing import Any

import numpy as np
import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.placement.placed import names
from tests.state.objects import GPU, placer, state, stored
from webhook.framework.cluster_view import MetricsStatus, Placement
from webhook.kube.asked import AskedPod
from webhook.nodes.utilisation import UNKNOWN
from webhook.placement.settings import PlacementSettings
from webhook.placement.strategies import STRATEGIES
from webhook.placement.use import usable_gpus
from webhook.state.state import ClusterState

FRESH = MetricsStatus("dcgm", "", 12.3)
IDLE = {"measured": 8, "idle": 8, "utilisation": 0.0, "hottest": 35.0, "known": 8}
BUSY = IDLE | {"idle": 0, "utilisation": 0.99, "busy": 8}


def placed(of: ClusterState, made: dict[str, Any], strategy: str, status: MetricsStatus = FRESH) -> Placement:
    of.gpu_metrics = lambda _: status
    return placer(of).place(AskedPod(made, GPUS), of.view(0), PlacementSettings(), strategy)


def used(of: ClusterState, **uses: dict[str, Any]) -> ClusterState:
    for name, use in uses.items():
        of.nodes.use_seen(name, UNKNOWN._replace(**use))
    return of


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "replicas", [pytest.param((), id="one replica"), pytest.param(("x", "y", "z"), id="three replicas")]
)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(BUSY, IDLE, id="all GPUs are busy, but none is allocated"),
        pytest.param(IDLE | {"idle": 7, "busy": 1, "utilisation": 0.1}, IDLE, id="one GPU is busy"),
        pytest.param(IDLE | {"avoid": 1}, IDLE, id="one GPU is hot or sick"),
        pytest.param(IDLE | {"measured": 7, "idle": 7, "avoid": 1}, IDLE, id="one GPU is lost, and still offered"),
        pytest.param(BUSY, {}, id="busy ones, and a node without metrics"),
        pytest.param(IDLE | {"utilisation": 0.2}, IDLE, id="both idle, one of them less so"),
        pytest.param(IDLE | {"hottest": 80.0}, IDLE, id="both idle, one of them warm"),
    ],
)
def test_the_other_node_comes_first(
    strategy: str, replicas: tuple[str, ...], first: dict[str, Any], second: dict[str, Any]
) -> None:
    for one, other in ("ab", "ba"):
        of = used(state([node("a"), node("b")], sibling="x"), **{one: first, other: second})
        of.nodes.divide(replicas)
        if of.nodes.divided() and "idle" in first and not ({"busy", "avoid"} & first.keys()):
            of.nodes.columns.order[:2] = 0.5, 0.4  # both are this replica's
        assert names(placed(of, stored("p", owner="o"), strategy)) == [other, one]


@pytest.mark.parametrize("strategy", ["pack", "apart"])
@pytest.mark.parametrize(
    "use",
    [
        pytest.param(IDLE | {"idle": 4, "busy": 4, "utilisation": 0.5}, id="the busy GPUs are those that were given"),
        pytest.param(IDLE | {"idle": 8}, id="the GPUs that were given are not used"),
        pytest.param(IDLE | {"measured": 4, "idle": 0, "busy": 4, "utilisation": 1.0}, id="only those are measured"),
        pytest.param(IDLE | {"known": 9, "avoid": 1}, id="the sick GPU was withdrawn by the device plugin"),
        pytest.param({}, id="no metrics"),
    ],
)
def test_a_partly_used_node_whose_free_gpus_are_fit_stays_first(strategy: str, use: dict[str, Any]) -> None:
    of = used(state([node("a"), node("b")], [stored(f"x{i}", 1, on="b") for i in range(4)]), a=IDLE, b=use)
    assert names(placed(of, pod("p"), strategy)) == ["b", "a"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nodes_with_enough_fit_gpus_come_before_others_and_none_is_refused(strategy: str) -> None:
    three, five = ({"idle": n, "busy": 8 - n, "utilisation": 0.5} for n in (3, 5))
    of = used(state([node(name) for name in "abc"]), a=IDLE | three, b=IDLE | five, c=IDLE)
    assert names(placed(of, pod("p", 4), strategy)) == ["c", "b", "a"]
    of.pod_seen(stored("x", 8, on="c"), 0)
    of.pod_seen(stored("y", 1, on="b"), 0)
    assert names(placed(of, pod("p", 8), strategy)) == ["a"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_of_nodes_with_shared_gpus_the_least_used_comes_first(strategy: str) -> None:
    shared = {"nvidia.com/gpu.replicas": "4"}
    of = state([node(name, 8, labels=shared) for name in "ab"], [stored("x", 4, on="a"), stored("y", 2, on="b")])
    used(of, a={**IDLE, "measured": 2, "idle": 1, "busy": 1, "utilisation": 0.2, "known": 2})
    used(of, b={**IDLE, "measured": 2, "idle": 0, "busy": 2, "utilisation": 0.9, "known": 2})
    assert names(placed(of, pod("p"), strategy)) == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "use", "by", "usable"),
    [
        pytest.param(FRESH, BUSY, ("metrics", "dcgm", 12), [(8, 0), (0, 99)], id="metrics"),
        pytest.param(
            FRESH, {}, ("allocation", "no GPU metrics of these nodes"), [(None, None)] * 2, id="of other nodes"
        ),
        pytest.param(MetricsStatus(), {}, ("allocation", "GPU metrics are off"), [(None, None)] * 2, id="off"),
        pytest.param(
            MetricsStatus("dcgm", "GPU metrics are stale", 400.0),
            {},
            ("allocation", "GPU metrics are stale"),
            [(None, None)] * 2,
            id="stale",
        ),
    ],
)
def test_a_placement_says_what_it_was_ranked_by(
    status: MetricsStatus, use: dict[str, Any], by: tuple[str | int, ...], usable: list[Any]
) -> None:
    of = used(state([node("a"), node("b")]), a=use, b=IDLE if use else {})
    placement = placed(of, pod("p"), "pack", status)
    assert placement.numbers == by
    loads = [(ranked.usable, ranked.load) for ranked in placement.nodes]
    assert loads == ([(8, 0), (0, 100 if use else None)] if use else usable)


def test_allocated_gpus_of_all_resources_count() -> None:
    slices = "nvidia.com/mig-1g.10gb"
    taken = [stored("x", 0, on="a", limits={slices: "7"}), stored("y", 1, on="a")]
    of = state([node("a", 4, resources={slices: "14"})], taken)
    used(of, a={**IDLE, "measured": 18, "idle": 9, "busy": 9, "known": 18})
    rows = np.array([of.nodes.row_of["a"]])
    assert usable_gpus(of.nodes.columns, rows, (GPU, slices), GPU).tolist() == [3 - 1]
