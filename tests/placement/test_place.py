"""For which pods a node is chosen, and when cached parts of pods and nodes are read again.

Covers placement.placer, placement.order, placement.request, placement.settings.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.placement.placed import DEFAULTS, KEY, TAINT, affinity, expression, names, placed
from tests.state.objects import GPU, placer, state, stored
from webhook.kube.asked import AskedPod
from webhook.kube.pod_requests import pod_requests_of
from webhook.placement.settings import Health, PlacementSettings
from webhook.placement.shared_cache import SharedCache


def owned_by(kind: str) -> dict[str, Any]:
    made = stored("p", owner="o")
    made["metadata"]["ownerReferences"][0]["kind"] = kind
    return made


def with_metadata(**metadata: Any) -> dict[str, Any]:
    made = pod("p")
    made["metadata"] |= metadata
    return made


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(owned_by("DaemonSet"), "pod of a DaemonSet", id="a DaemonSet has one node for each pod"),
        pytest.param(owned_by("Node"), "static pod", id="a static pod by its owner"),
        pytest.param(
            with_metadata(annotations={"kubernetes.io/config.mirror": "x"}), "static pod", id="a mirror of a static pod"
        ),
        pytest.param(stored("p", on="gpu-a"), "nodeName is set", id="the node is already chosen"),
        pytest.param(pod("p", schedulingGates=[{"name": "g"}]), "scheduling gates", id="a gated pod"),
        pytest.param(
            with_metadata(labels={"kueue.x-k8s.io/queue-name": "q"}), "managed by Kueue", id="a pod in a Kueue queue"
        ),
        pytest.param(pod("p", schedulingGroup={"podGroupName": "g"}), "pod group", id="a pod of a group"),
        pytest.param(
            pod("p", workloadRef={"name": "w"}), "pod group", id="a pod of a group, as Kubernetes 1.35 says it"
        ),
        pytest.param(pod("p", schedulerName="volcano"), "another scheduler", id="a pod of another scheduler"),
        pytest.param(
            pod("p", 0, resourceClaims=[{"name": "gpu"}]), "no claim of devices is known here", id="devices are claimed"
        ),
        pytest.param(pod("p", 0), "no GPU is asked for", id="a pod without GPUs"),
        pytest.param(
            pod("p", limits={"cpu": "much"}), "a request is not a quantity", id="a request that is no quantity"
        ),
        pytest.param(
            pod("p", tolerations=[{"operator": "Exists"}] * 300),
            "affinity or tolerations are too many to rank by",
            id="more tolerations than anybody needs",
        ),
        pytest.param(
            pod("p", affinity=affinity(*[expression("k", "In", "v")] * 300)),
            "affinity or tolerations are too many to rank by",
            id="more terms than anybody needs",
        ),
    ],
)
def test_no_node_is_chosen_for_pods_that_others_place(made: dict[str, Any], reason: str) -> None:
    placement = placed(state([node("gpu-a")]), made)
    assert placement.reason == reason
    assert placement.nodes == ()


def test_a_stale_state_chooses_nothing() -> None:
    of = state([node("gpu-a")], max_age=10.0)
    assert (
        placer(of).place(AskedPod(pod("p"), GPUS), of.view(11.0), DEFAULTS, "pack").reason == "cluster state is stale"
    )


def test_strategy_off_chooses_nothing() -> None:
    assert placed(state([node("gpu-a")]), pod("p"), "off").reason == "the policy leaves it to the scheduler"


def test_the_default_scheduler_by_name_is_the_default_scheduler() -> None:
    assert names(placed(state([node("gpu-a")]), pod("p", schedulerName="default-scheduler"))) == ["gpu-a"]


def test_changes_of_nodes_and_pods_are_seen_at_once() -> None:
    of = state([node("a"), node("b")])
    changes: list[tuple[Callable[[], None], list[str]]] = [
        (lambda: None, ["a", "b"]),
        (lambda: of.node_seen(node("a", cordoned=True)), ["b"]),
        (lambda: of.pod_seen(stored("x", 8, on="b"), 0), []),
        (lambda: of.node_seen(node("a")), ["a"]),
        (lambda: of.node_seen(node("c")), ["a", "c"]),
        (lambda: of.node_gone("a"), ["c"]),
        (lambda: of.pod_gone(stored("x")), ["b", "c"]),
        (lambda: of.node_seen(node("b", taints=[TAINT])), ["c"]),
    ]
    for change, left in changes:
        change()
        assert names(placed(of, pod("p"), "spread")) == left


def test_taints_that_always_change_do_not_fill_the_memory() -> None:
    of = state([node("a"), node("c")])
    tolerant = pod("p", tolerations=[{"key": KEY, "operator": "Exists"}])
    for i in range(1000):
        of.node_seen(node("c", taints=[{"key": "ToBeDeleted", "value": str(i), "effect": "NoSchedule"}]))
        if i == 200:
            of.node_seen(node("b", taints=[TAINT]))
        if i % 20 == 0:
            assert names(placed(of, pod("p"))) == ["a"]
            assert names(placed(of, tolerant)) == (["a", "b"] if i >= 200 else ["a"])
    of.node_seen(node("d"))
    assert names(placed(of, pod("p"))) == ["a", "d"]
    other_shape = pod("p", tolerations=[{"key": KEY, "operator": "Equal", "value": "present"}])
    assert names(placed(of, other_shape)) == ["a", "b", "d"]
    assert of.nodes.renumbered > 0


def test_the_cache_of_shapes_is_bounded() -> None:
    of = state([node("a", labels={"zone": "x"})])
    for i in range(550):
        assert not placed(of, pod("p", nodeSelector={"zone": str(i)})).nodes
        assert names(placed(of, pod("p", 1 + i % 8, nodeSelector={"zone": "x"}))) == ["a"]
    ranker = placer(of)._ranker(DEFAULTS, GPUS)
    assert len(ranker._scores) <= 512


def test_shapes_of_one_namespace_push_out_none_of_another() -> None:
    of = state([node("a", labels={"zone": "x"})])
    other = pod("p", 2) | {"metadata": {"name": "p", "namespace": "other"}}
    ranker = placer(of)._ranker(DEFAULTS, GPUS)

    asks_too_much = pod("p", 9) | {"metadata": {"name": "p", "namespace": "other"}}
    placed(of, other)
    placed(of, asks_too_much)
    causes = ranker.unschedulable(AskedPod(other, GPUS), pod_requests_of(other))
    caches: list[SharedCache[Any, Any]] = [ranker._scores, ranker._unschedulable]
    kept = [next(iter(cache.values())) for cache in caches]
    for i in range(300):
        for gpus in (1, 9):
            made = pod("p", gpus, nodeSelector={"zone": str(i)})
            placed(of, made)
            ranker.unschedulable(AskedPod(made, GPUS), pod_requests_of(made))
    for cache, value in zip(caches, kept, strict=True):
        assert any(each is value for each in cache.values())
    assert ranker.unschedulable(AskedPod(other, GPUS), pod_requests_of(other)) is causes


def test_the_cache_of_rankers_is_bounded_and_shared_by_equal_policies() -> None:
    of = state([node("a")])
    for _ in range(5):
        assert names(placed(of, pod("p"), settings=PlacementSettings(strategies={"x": "pack"}))) == ["a"]
    assert len(placer(of)._rankers) == 1
    for i in range(100):
        other = PlacementSettings(health=Health(labels={"sick": (str(i),)}))
        assert names(placed(of, pod("p"), settings=other)) == ["a"]
    assert len(placer(of)._rankers) <= 6


def test_recent_demands_reach_the_strategies() -> None:
    of = state([node("a", labels={"nvidia.com/gpu.product": "H100"})])
    placed(of, pod("p"))
    for i in range(3):
        of.pod_seen(stored(f"p{i}", 2, on="a", phase="Running", nodeSelector={"nvidia.com/gpu.product": "H100"}), 0)
    placed(of, pod("p"))
    view = placer(of)._ranker(DEFAULTS, GPUS)._view
    assert view.gpus == (GPU,)
    assert [(found.pod_requests.amount(GPU), found.models, found.weight) for found in view.popular] == [(2, (1,), 1.0)]


def _told(name: str, gpus: int = 8, cuda: str | None = "12", **fields: Any) -> dict[str, Any]:
    return node(name, gpus, labels={"a": name[:1]} | ({"cuda": cuda} if cuda else {}), **fields)


@pytest.mark.parametrize(
    ("made", "found"),
    [
        pytest.param(
            pod("p"), {("12", "a"), ("13", "b"), ("", "c"), ("9", "d")}, id="each node that fits, also if it is full"
        ),
        pytest.param(pod("p", 5), {("12", "a"), ("13", "b"), ("9", "d")}, id="those that are large enough"),
        pytest.param(pod("p", nodeSelector={"a": "b"}), {("13", "b")}, id="those that it selects"),
        pytest.param(pod("p", 64), {("9", "d")}, id="one of which nobody knows what its plugin would offer"),
        pytest.param(pod("p", schedulerName="volcano"), set(), id="another scheduler places it"),
        pytest.param(pod("p", 0), set(), id="it asks for no GPU"),
    ],
)
def test_labels_of_the_nodes_that_could_take_a_pod(made: dict[str, Any], found: set[tuple[str, str]]) -> None:
    away = node("d1", 0, labels={"a": "d", "cuda": "9"}, resources={"nvidia.com/gpu": "0"})
    closed = _told("e1", cuda="10", taints=[{"key": "team", "value": "x", "effect": "NoSchedule"}])
    nodes = [_told("a1"), _told("a2", cordoned=True), _told("b1", cuda="13"), _told("c1", 4, None), away, closed]
    of = state([*nodes, node("cpu", 0)], [stored("x", 8, on="b1")])
    assert placer(of).labels(AskedPod(made, GPUS), of.view(0), DEFAULTS, ("cuda", "a")) == found
    assert not placer(of).labels(AskedPod(made, GPUS), of.view(999), DEFAULTS, ("cuda", "a"))
    assert all(not any(each) for each in placer(of).labels(AskedPod(made, GPUS), of.view(0), DEFAULTS, ("none",)))
