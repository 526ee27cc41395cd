"""Shared and sliced GPUs come last for pods with several GPUs, and do not count as whole GPUs."""

from typing import Any

import pytest

from tests.builders import GPUS
from tests.cli.mixed import HAMI
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.state.objects import GPU, placer, state, stored
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import one_on
from webhook.placement.settings import PlacementSettings
from webhook.state.state import ClusterState

DEFAULTS = PlacementSettings()
GKE = "cloud.google.com/gke-"
STRATEGY, REPLICAS, PRODUCT, COUNT = (
    f"nvidia.com/gpu.{key}" for key in ("sharing-strategy", "replicas", "product", "count")
)


TIME_SLICING = {REPLICAS: "4", STRATEGY: "time-slicing"}
WAYS = {
    "time-slicing": TIME_SLICING,
    "MPS": {STRATEGY: "mps", COUNT: "8"},
    "MIG, with the plain name": {PRODUCT: "NVIDIA-A30-MIG-1g.6gb", "nvidia.com/mig.strategy": "single", COUNT: "32"},
    "time-sharing of GKE": {f"{GKE}gpu-sharing-strategy": "time-sharing", f"{GKE}max-shared-clients-per-gpu": "4"},
    "GKE says only how many share": {f"{GKE}max-shared-clients-per-gpu": "4"},
    "partitions of GKE": {f"{GKE}gpu-partition-size": "1g.24gb"},
}
"""Labels of nodes on which four nvidia.com/gpu are of one GPU."""
by_way = pytest.mark.parametrize("way", [pytest.param(labels, id=name) for name, labels in WAYS.items()])


def sliced(name: str, slots: int = 32, way: dict[str, str] = TIME_SLICING) -> dict[str, Any]:
    return node(name, slots, labels=way)


def ranked(of: ClusterState, gpus: int, strategy: str, **spec: Any) -> list[str]:
    found = placer(of).place(AskedPod(stored("p", gpus, **spec), GPUS), of.view(0), DEFAULTS, strategy)
    return [each.node for each in found.nodes]


@pytest.mark.parametrize(
    ("labels", "offered", "pods"),
    [
        pytest.param({}, 8, 1, id="no labels about sharing"),
        pytest.param({REPLICAS: "1", STRATEGY: "none"}, 8, 1, id="GPUs of their own"),
        pytest.param({REPLICAS: "0"}, 0, 1, id="a node with slices"),
        pytest.param({REPLICAS: "many"}, 8, 1, id="what makes no sense"),
        pytest.param({REPLICAS: "4"}, 32, 4, id="so many"),
        pytest.param({STRATEGY: "mps", COUNT: "8"}, 32, 4, id="as many as are offered of each"),
        pytest.param({PRODUCT: "NVIDIA-L4-SHARED", COUNT: "2"}, 20, 10, id="by the product"),
        pytest.param({STRATEGY: "time-slicing"}, 0, 2, id="an unknown number of shares"),
    ],
)
def test_how_many_pods_share_a_gpu(labels: dict[str, str], offered: int, pods: int) -> None:
    one = one_on(GPU, "whole", labels, offered)
    assert (one.kind, one.shares, one.slices) == ("share" if pods > 1 else "whole", pods, 1)


@pytest.mark.parametrize(
    ("labels", "offered", "wanted"),
    [
        pytest.param({PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, 56, ("slice", 7, 1), id="slices"),
        pytest.param({PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"}, 16, ("slice", 2, 1), id="large slices"),
        pytest.param(
            {PRODUCT: "NVIDIA-A100-MIG-1g.5gb-SHARED", REPLICAS: "2"}, 28, ("share", 7, 2), id="shared slices"
        ),
        pytest.param({PRODUCT: "NVIDIA-H100", "nvidia.com/mig.strategy": "single"}, 8, ("whole", 1, 1), id="no slices"),
        pytest.param({f"{GKE}gpu-partition-size": "7g.40gb"}, 8, ("slice", 1, 1), id="one slice of the whole GPU"),
    ],
)
def test_how_many_slices_a_gpu_has(labels: dict[str, str], offered: int, wanted: tuple[str, int, float]) -> None:
    one = one_on(GPU, "whole", labels, offered)
    assert (one.kind, one.slices, one.shares) == wanted


@by_way
@pytest.mark.parametrize("strategy", ["pack", "apart", "spread"])
@pytest.mark.parametrize("there", [{"a": 30}, {"a": 1}, {"b": 6}, {}], ids=str)
def test_whole_gpus_come_first_for_a_pod_of_two(strategy: str, there: dict[str, int], way: dict[str, str]) -> None:
    of = state([sliced("a", way=way), node("b")], [stored(f"on-{name}", gpus, on=name) for name, gpus in there.items()])
    assert ranked(of, 2, strategy) == ["b", "a"]


@by_way
def test_shared_gpus_are_used_if_no_whole_gpus_are_left(way: dict[str, str]) -> None:
    of = state([sliced("a", way=way), node("b")], [stored("x", 7, on="b")])
    assert ranked(of, 2, "pack") == ["a"]


@pytest.mark.parametrize(
    ("gpus", "there", "warned"),
    [
        pytest.param(2, 7, True, id="two, and whole GPUs are taken"),
        pytest.param(2, 0, False, id="two whole ones are left"),
        pytest.param(1, 8, False, id="one share is what the node offers"),
        pytest.param(0, 8, False, id="none"),
    ],
)
@by_way
def test_a_pod_that_would_get_several_shares_is_told_so(
    gpus: int, there: int, warned: bool, way: dict[str, str]
) -> None:
    of = state([sliced("a", way=way), node("b")], [stored("x", there, on="b")])
    found = placer(of).place(AskedPod(pod("p", gpus), GPUS), of.view(0), DEFAULTS, "pack")
    assert (found.warning is not None) is warned
    if found.warning:
        assert found.warning.startswith(
            "only nodes where nvidia.com/gpu is not a whole GPU have room for 2 now, such as a ("
        )


def test_slots_of_cards_that_a_scheduler_of_parts_shares_are_no_gpus() -> None:
    """HAMi calls them as the plain device plugin calls whole GPUs, and no label says so."""
    cards = {HAMI.said.registered: "".join(f"GPU-{n},10,80000,100,A100,0,true:" for n in range(2))}
    nodes = [node("a", 2, resources={GPU: "20"}, annotations=cards), node("b")]
    assert ranked(state(nodes), 2, "pack") == ["b", "a"]
    of = state(nodes, [stored("x", 7, on="b")])
    found = placer(of).place(AskedPod(pod("p", 2), GPUS), of.view(0), DEFAULTS, "pack")
    assert (found.nodes[0].node, f"such as a ({HAMI.said.registered})" in (found.warning or "")) == ("a", True)
    assert "require other nodes: by a label" in (found.warning or "")


@by_way
@pytest.mark.parametrize("others", [[node("b")], [], [node("b", 4)]], ids=len)
def test_shares_do_not_count_as_gpus_of_the_largest_node(others: list[dict[str, Any]], way: dict[str, str]) -> None:
    assert state([sliced("a", way=way), *others]).view(0).resources()[GPU] == 8


TAINT = {"key": "team", "value": "x", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("nodes", "made", "only"),
    [
        pytest.param([node("a")], pod("p", 2), False, id="no GPU is shared"),
        pytest.param([sliced("a"), node("b")], pod("p", 2), False, id="whole ones are there"),
        pytest.param([sliced("a"), node("b")], pod("p", 8), False, id="all of a whole node"),
        pytest.param([sliced("a")], pod("p", 2), True, id="no whole ones"),
        pytest.param([sliced("a"), node("b", 1)], pod("p", 2), True, id="too few whole ones"),
        pytest.param([sliced("a"), node("b")], pod("p", 64), False, id="more than any node has"),
        pytest.param(
            [sliced("a"), node("b")], pod("p", 2, nodeSelector={STRATEGY: "time-slicing"}), True, id="selected by label"
        ),
        pytest.param(
            [sliced("a"), node("b", taints=[TAINT])], pod("p", 2), True, id="a taint keeps it from whole ones"
        ),
        pytest.param([sliced("a"), node("b", cordoned=True)], pod("p", 2), False, id="whole ones that come back"),
        pytest.param([sliced("a")], pod("p", 0), False, id="no GPU is requested"),
        *[pytest.param([sliced("a", way=way)], pod("p", 2), True, id=name) for name, way in WAYS.items()],
        pytest.param([sliced("a")], pod("p", 2, schedulerName="other"), False, id="a pod of another scheduler"),
    ],
)
def test_whether_a_pod_can_only_get_shared_gpus(nodes: list[dict[str, Any]], made: dict[str, Any], only: bool) -> None:
    of = state(nodes)
    causes = [reason.cause for reason in placer(of).unschedulable(AskedPod(made, GPUS), of.view(0), DEFAULTS)]
    assert ("shared" in causes) is only


@by_way
def test_a_whole_node_has_no_shared_gpus(way: dict[str, str]) -> None:
    """One in twenty whole nodes is kept. A node with 32 free shares is none of them."""
    of = state([*[sliced(f"s{n}", way=way) for n in range(40)], *[node(f"w{n:02}") for n in range(20)]])
    assert ranked(of, 8, "pack")[0] == "w00"
