"""Room is left for pods that can go to few nodes: waiting pods, pods that come for a disk, and several of them at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import GPUS
from tests.cluster.objects import admitted, node, placer, pod, state
from webhook.cluster.pods import reservation_request
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Placement
from webhook.placement.settings import PlacementSettings

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NOBODY = "pods that are there keep it away"


def affinity(app: str, key: str = HOST, *, anti: bool = False, **more: Any) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {"affinity": {"podAntiAffinity" if anti else "podAffinity": {REQUIRED: [term]}}}


def called(app: str, gpus: int = 1, **made: Any) -> dict[str, Any]:
    found = pod(app, gpus, **made)
    found["metadata"]["labels"] = {"app": app}
    return found


def on_host(*names: str) -> dict[str, Any]:
    expression = {"key": HOST, "operator": "In", "values": list(names)}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}


def placed(of: ClusterState, made: dict[str, Any], strategy: str = "pack") -> Placement:
    return placer(of).place(admitted(made), of.view(0), PlacementSettings(), strategy, GPUS)


def first(of: ClusterState, made: dict[str, Any]) -> str:
    return placed(of, made).nodes[0].node


def two_nodes(*pods: dict[str, Any]) -> ClusterState:
    """Nodes a and b with 8 GPUs each; `a` has 2 free GPUs, so `pack` chooses it first."""
    return state([node("a"), node("b")], [called("full", 6, on="a"), *pods])


# --- waiting pods -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param(called("w", 2), id="one that may go to every node"),
        pytest.param(called("w", 2, nodeSelector={HOST: "b"}), id="one that is confined to another node"),
        pytest.param(called("w", 2, nodeSelector={HOST: "c"}), id="one that is confined to a missing node"),
        pytest.param(called("w", 9, nodeSelector={HOST: "a"}), id="one that would not fit if the node were empty"),
        pytest.param(called("w", 1, nodeSelector={HOST: "a"}), id="one that fits beside the pod"),
        pytest.param(called("w", 2, ranked=["b"]), id="one with a reservation elsewhere"),
        pytest.param(called("w", 0, nodeSelector={HOST: "a"}), id="one without a GPU"),
        pytest.param(called("w", 2, phase="Failed", nodeSelector={HOST: "a"}), id="one that has failed"),
        pytest.param(called("w", **affinity("x")), id="one that waits for others"),
    ],
)
def test_the_fullest_node_stays_the_first_choice_despite_waiting_pods(waits: dict[str, Any]) -> None:
    assert first(two_nodes(waits), called("p")) == "a"


@pytest.mark.parametrize(
    "tied",
    [
        pytest.param({"nodeSelector": {HOST: "a"}}, id="by its selector"),
        pytest.param(on_host("a"), id="by its affinity"),
        pytest.param({"nodeSelector": {HOST: "a"}, "schedulingGates": [{"name": "x/y"}]}, id="and its gate is closed"),
        pytest.param({"nodeSelector": {HOST: "a"}, "schedulerName": "other"}, id="and another scheduler places it"),
    ],
)
def test_room_is_left_for_a_waiting_pod_that_is_confined_to_a_node(tied: dict[str, Any]) -> None:
    assert first(two_nodes(called("w", 2, **tied)), called("p")) == "b"


def test_room_is_left_for_all_waiting_pods() -> None:
    one, two = (called(f"w{n}", 1, nodeSelector={HOST: "a"}) for n in (1, 2))
    assert [first(two_nodes(*waiting), called("p")) for waiting in ([one], [one, two])] == ["a", "b"]


def test_a_pod_that_can_go_nowhere_else_goes_there_anyway() -> None:
    assert first(two_nodes(called("w", 2, nodeSelector={HOST: "a"})), called("p", nodeSelector={HOST: "a"})) == "a"


def test_a_pod_that_does_not_wait_any_more_needs_no_room() -> None:
    waits = called("w", 2, nodeSelector={HOST: "a"})
    of = two_nodes(waits)
    of.pod_gone(waits)
    assert first(of, called("p")) == "a"


def test_a_reservation_that_has_ended_leaves_a_pod_that_waits() -> None:
    waits = called("w", 2, ranked=["a"], nodeSelector={HOST: "a"})
    of = two_nodes(waits)
    of.pod_seen(waits | {"status": {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}}, 1)
    assert first(of, called("p")) == "b"


# --- disks ------------------------------------------------------------------------------------------------------------


def claim(volume: str = "", of_class: str = "", name: str = "data") -> dict[str, Any]:
    spec = ({"volumeName": volume} if volume else {}) | ({"storageClassName": of_class} if of_class else {})
    return {"metadata": {"name": name, "namespace": "team-a"}, "spec": spec}


def disk(name: str, value: str, key: str = HOST, of_class: str = "", **spec: Any) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {
        "metadata": {"name": name},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, "storageClassName": of_class, **spec},
    }


def with_disks(claims: list[Any], disks: list[Any], *pods: dict[str, Any]) -> ClusterState:
    """`a` has one free GPU."""
    nodes = [node(name, labels={ZONE: "x"}) for name in "ab"]
    of = state(nodes, [called("full", 7, on="a"), *pods])
    of.replace("persistentvolumeclaims", claims, 0)
    of.replace("persistentvolumes", disks, 0)
    return of


USES = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


@pytest.mark.parametrize(
    ("claims", "disks", "pods"),
    [
        pytest.param([], [disk("v", "a")], [], id="not claimed"),
        pytest.param([], [disk("v", "a", of_class="local")], [], id="not claimed, although others could be"),
        pytest.param([claim("v")], [disk("v", "b")], [], id="of another node"),
        pytest.param([claim("v")], [disk("v", "x", ZONE)], [], id="of a zone"),
        pytest.param([claim("v")], [disk("v", "a")], [pod("u", 0, on="a", **USES)], id="that a pod uses already"),
        pytest.param(
            [claim(of_class="local")],
            [disk("v", "a", of_class="local", claimRef={"name": "other"})],
            [],
            id="that another claim has got",
        ),
        pytest.param([claim(of_class="local")], [disk("v", "a", of_class="fast")], [], id="of another class"),
        pytest.param([claim(of_class="local")], [disk("v", "x", ZONE, "local")], [], id="of a class, in a zone"),
    ],
)
def test_no_room_is_left_for_a_disk(claims: list[Any], disks: list[Any], pods: list[Any]) -> None:
    assert first(with_disks(claims, disks, *pods), called("p")) == "a"


@pytest.mark.parametrize(
    ("claims", "disks"),
    [
        pytest.param([claim("v")], [disk("v", "a")], id="bound"),
        pytest.param([claim(of_class="local")], [disk("v", "a", of_class="local")], id="bound once a pod comes"),
    ],
)
def test_a_gpu_is_left_beside_a_claimed_disk_that_is_not_in_use(claims: list[Any], disks: list[Any]) -> None:
    assert first(with_disks(claims, disks), called("p")) == "b"


def test_of_two_used_nodes_the_one_without_a_claimed_disk_comes_first() -> None:
    of = with_disks([claim("v")], [disk("v", "b")], called("more", 4, on="b"))
    assert (first(of, called("p")), first(of, called("p", 2))) == ("a", "b")
    of.replace("persistentvolumes", [disk("v", "a")], 1)
    assert first(of, called("p")) == "b"


def test_no_whole_node_is_used_for_a_disk_if_more_than_one_gpu_is_left() -> None:
    of = with_disks([claim("v")], [disk("v", "a")])
    of.pod_gone(called("full", 7, on="a"))
    of.pod_seen(called("less", 5, on="a"), 1)
    assert (first(of, called("p")), first(of, called("p", 3))) == ("a", "b")


def test_the_pod_of_the_disk_gets_the_gpu() -> None:
    assert first(with_disks([claim("v")], [disk("v", "a")]), called("p", **USES)) == "a"


# --- waiting pods with affinity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param(called("w", 1, **affinity("p")), id="there is room for both"),
        pytest.param(called("w", 8, **affinity("p")), id="no node has room for both"),
        pytest.param(called("w", 2, **affinity("other")), id="it waits for others"),
        pytest.param(called("w", 2, **affinity("p", namespaces=["team-b"])), id="of another namespace"),
        pytest.param(called("w", 2, **affinity("p", ZONE)), id="in a zone, but nodes have none"),
    ],
)
def test_these_waiting_pods_do_not_change_the_node_of_a_pod(waits: dict[str, Any]) -> None:
    assert first(two_nodes(waits), called("p")) == "a"


@pytest.mark.parametrize(
    "more",
    [{}, {"namespaces": ["team-a"]}, {"namespaceSelector": {}}, {"namespaces": ["x"], "namespaceSelector": {}}],
    ids=["its own namespace", "by name", "all namespaces", "a name, or all"],
)
def test_a_pod_that_another_waits_for_goes_where_both_fit(more: dict[str, Any]) -> None:
    assert first(two_nodes(called("w", 2, **affinity("p", **more))), called("p")) == "b"


def test_a_pod_that_another_waits_for_in_its_zone_goes_to_one_with_room_for_both() -> None:
    zones = {"a": "x", "b": "x", "c": "y", "d": "y"}
    of = state(
        [node(name, labels={ZONE: zone}) for name, zone in zones.items()],
        [called("full", 7, on="a"), called("full2", 6, on="b"), called("w", 4, **affinity("p", ZONE))],
    )
    assert first(of, called("p")) == "c"


# --- anti-affinity of other pods --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(called("q", on="a", **affinity("other", anti=True)), id="it has anti-affinity to others"),
        pytest.param(called("q", on="a", **affinity("p", anti=True, namespaces=["team-b"])), id="of another namespace"),
        pytest.param(called("q", on="a", **affinity("p", ZONE, anti=True)), id="by zone, but nodes have none"),
        pytest.param(called("q", **affinity("p", anti=True)), id="it has no node yet"),
        pytest.param(called("q", on="a", phase="Succeeded", **affinity("p", anti=True)), id="it has ended"),
    ],
)
def test_a_pod_goes_to_a_node_if_no_pod_there_has_anti_affinity_to_it(there: dict[str, Any]) -> None:
    assert first(two_nodes(there), called("p")) == "a"


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_node_is_excluded_if_a_pod_there_has_anti_affinity_to_this_one(gpus: int) -> None:
    there = called("q", gpus, on="a", **affinity("p", anti=True))
    assert [ranked.node for ranked in placed(two_nodes(there), called("p")).nodes] == ["b"]


def test_a_whole_zone_is_excluded_if_a_pod_in_it_has_anti_affinity_to_this_one() -> None:
    zones = {"a": "x", "b": "x", "c": "y"}
    of = state(
        [node(name, labels={ZONE: zone}) for name, zone in zones.items()],
        [called("full", 6, on="a"), called("q", 0, on="b", **affinity("p", ZONE, anti=True))],
    )
    assert [ranked.node for ranked in placed(of, called("p")).nodes] == ["c"]


def test_if_every_node_is_excluded_none_is_chosen_and_the_reason_says_so() -> None:
    pods = [called(f"q{name}", on=name, **affinity("p", anti=True)) for name in "ab"]
    of = two_nodes(*pods)
    assert (placed(of, called("p")).nodes, placed(of, called("p")).reason) == ((), NOBODY)
    of.pod_gone(pods[1])
    assert first(of, called("p")) == "b"


# --- several pods that few nodes can take -----------------------------------------------------------------------------


def test_pods_of_a_zone_leave_room_on_each_of_its_nodes() -> None:
    """A later pod has affinity to one on `a`, and needs room there."""
    of = state([node(name, labels={ZONE: "x"}) for name in "abc"], [called("x", 6, on="a"), called("y", 4, on="b")])
    of.replace("persistentvolumeclaims", [claim("v")], 0)
    of.replace("persistentvolumes", [disk("v", "x", ZONE)], 0)
    found = []
    for number in range(2):
        made = called("p", owner="train", **USES)
        made["metadata"]["name"] = f"p{number}"
        placement = placed(of, made)
        of.reserve(reservation_request(admitted(made)), placement, 0)
        found.append(placement.nodes[0].node)
    assert found == ["b", "b"]
