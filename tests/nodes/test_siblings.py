"""Which siblings run, which nodes each of them owns, and that they do not choose the same nodes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.placement.placed import affinity, expression, names, placed
from tests.state.objects import admitted, state, stored
from webhook.kube.asked import AskedPod
from webhook.kube.pod import HOSTNAME
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.siblings import OTHER_SIBLING, sibling_penalty
from webhook.nodes.table import LAST
from webhook.placement.strategies import STRATEGIES
from webhook.state.state import ClusterState

NODES = [node(f"gpu-{i:02}") for i in range(60)]
LABELS = {"app.kubernetes.io/name": "gpu-admission"}


def sibling(name: str, *, namespace: str = "gpu-admission", ready: str = "True", **metadata: Any) -> dict[str, Any]:
    """The pod of a sibling."""
    made = stored(name, 0)
    made["metadata"] |= {"namespace": namespace, "labels": LABELS} | metadata
    made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    return made


def shared(name: str, *others: str, nodes: list[dict[str, Any]] | None = None) -> ClusterState:
    return state(NODES if nodes is None else nodes, [sibling(other) for other in (name, *others)], sibling=name)


def own(of: ClusterState) -> set[str]:
    """The nodes that this sibling owns."""
    of.nodes.divided()
    return {name for name, row in of.nodes.row_of.items() if of.nodes.columns.order[row] < OTHER_SIBLING}


def everything() -> set[str]:
    return {made["metadata"]["name"] for made in NODES}


# --- which siblings count ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(sibling("b", namespace="team-a"), id="a tenant's pod that looks like one"),
        pytest.param(sibling("b", labels={"app.kubernetes.io/name": "prometheus"}), id="another program beside us"),
        pytest.param(sibling("b", labels=None), id="a pod without labels"),
        pytest.param(sibling("b", ready="False"), id="one that is not ready"),
        pytest.param(sibling("b", deletionTimestamp="2026-01-01T00:00:00Z"), id="one that is on its way out"),
        pytest.param(sibling("b") | {"status": {"phase": "Failed"}}, id="one that has failed"),
        pytest.param(sibling("b") | {"status": {}}, id="one that nothing is known of"),
        pytest.param(sibling("a"), id="this one itself"),
    ],
)
def test_a_single_sibling_owns_all_nodes(made: dict[str, Any]) -> None:
    of = state(NODES, [made], sibling="a")
    assert of.siblings.names == ("a",)
    assert len(of.nodes.siblings) < 2
    assert own(of) == everything()


def test_a_sibling_counts_itself_before_it_is_ready() -> None:
    of = state(NODES, [sibling("a", ready="False"), sibling("b")], sibling="a")
    assert of.siblings.names == ("a", "b")
    assert own(of) == own(shared("a", "b"))


def test_a_sibling_without_a_name_knows_no_others() -> None:
    assert len(state(NODES, [sibling("a"), sibling("b")]).nodes.siblings) < 2


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda of: of.pod_gone(sibling("b")), id="it is deleted"),
        pytest.param(lambda of: of.pod_seen(sibling("b", ready="False"), 1), id="it is not ready any more"),
        pytest.param(lambda of: of.pod_seen(sibling("b") | {"status": {"phase": "Succeeded"}}, 1), id="it ends"),
        pytest.param(lambda of: of.replace("pods", [sibling("a")], 1), id="a fresh list does not name it"),
    ],
)
def test_a_sibling_counts_while_it_is_ready(ends: Any) -> None:
    of = shared("a")
    of.pod_seen(sibling("b"), 0)
    assert of.siblings.names == ("a", "b")
    assert own(of) != everything()
    ends(of)
    assert of.siblings.names == ("a",)
    assert own(of) == everything()


# --- owners of nodes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [("a", "b"), ("b", "a", "c"), ("gpu-admission-7d9f-x2x4z", "gpu-admission-7d9f-q8p6w")]
)
def test_each_node_belongs_to_one_sibling_and_all_have_equally_many(names: tuple[str, ...]) -> None:
    parts = [own(shared(*[name, *[other for other in names if other != name]])) for name in names]
    assert set.union(*parts) == everything()
    assert [*map(len, parts)] == [len(NODES) // len(names)] * len(names)


def test_the_nodes_of_each_gpu_model_are_divided_equally() -> None:
    few = [node(f"m{i // 2}-{i}", labels={"nvidia.com/gpu.product": f"M{i // 2}"}) for i in range(16)]
    for name, other in ("ab", "ba"):
        models = sorted(each[:2] for each in own(shared(name, other, nodes=NODES + few)) if each.startswith("m"))
        assert models == [f"m{i}" for i in range(8)]


def test_a_node_that_comes_or_goes_moves_one_node_at_most_between_two_siblings() -> None:
    of = shared("a", "b")
    before = own(of)
    of.node_seen(node("more"))
    assert len((own(of) ^ before) - {"more"}) <= 1
    of.node_gone("more")
    assert own(of) == before


def test_in_whatever_order_siblings_hear_of_nodes_they_divide_them_alike() -> None:
    nodes = NODES + [node(f"more-{i}") for i in range(80)]  # more than the first arrays hold
    of = shared("a", "b", nodes=NODES)
    assert len(own(of)) == len(NODES) // 2
    for made in reversed(nodes):
        of.node_seen(made)
    assert own(of) == own(shared("a", "b", nodes=nodes))


# --- choices of siblings ----------------------------------------------------------------------------------------------


def siblings(nodes: list[dict[str, Any]], *names: str) -> list[ClusterState]:
    """The state of each of these siblings, for the same cluster."""
    found = [state(nodes, sibling=name) for name in names]
    for of in found:
        of.nodes.divide(names)
        of.nodes.divided()
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("gpus", [1, 8])
def test_siblings_that_do_not_see_each_other_s_choices_fill_different_nodes(strategy: str, gpus: int) -> None:
    nodes = [node(f"gpu-{i}", cpu=str(96 + i / 1000)) for i in range(30)]
    chosen: list[set[str]] = []
    for of in siblings(nodes, "a", "b", "c"):
        chosen.append(set())
        for number in range(5):
            made = admitted(stored(f"p{number}", gpus))
            placement = placed(of, made, strategy)
            of.reserve(AskedPod(made, GPUS), placement, 0)
            chosen[-1].add(placement.nodes[0].node)
    assert len(set.union(*chosen)) == sum(map(len, chosen))


def test_a_sibling_whose_nodes_are_full_takes_another_s_with_most_room() -> None:
    nodes = [node(f"gpu-{i}") for i in range(12)]
    (of, _) = siblings(nodes, "a", "b")
    others = sorted(name for name, row in of.nodes.row_of.items() if of.nodes.columns.order[row] >= OTHER_SIBLING)
    others = others[:6]
    for name in of.nodes.row_of.keys() - set(others):
        of.pod_seen(stored(f"full-{name}", 8, on=name), 0)
    for number, name in enumerate(others):
        of.pod_seen(stored(f"some-{name}", 7 - number, on=name), 0)
    assert names(placed(of, stored("p"))) == others[::-1]
    of.nodes.divide(("a",))
    assert names(placed(of, stored("p"))) == others


@pytest.mark.parametrize(
    ("share", "room", "penalty"),
    [
        pytest.param(0.5, 1, 0, id="a node of its own, with room for this pod only"),
        pytest.param(1.5, 16, 1, id="a node of another sibling, with much room"),
        pytest.param(1.5, 7, 1, id="room for six pods beside this one"),
        pytest.param(1.5, 6, 2, id="room for one less"),
        pytest.param(1.5, 1, 7, id="room for this pod only"),
    ],
)
def test_a_node_of_another_sibling_is_worth_less_the_less_room_it_has(share: float, room: int, penalty: int) -> None:
    pod_requests = PodRequests((("nvidia.com/gpu", 2), ("pods", 1)))
    columns: Any = SimpleNamespace(order=np.array([share]), free={"nvidia.com/gpu": np.array([2 * room + 1])})
    assert sibling_penalty(columns, np.array([0]), pod_requests, "nvidia.com/gpu", burst=False).tolist() == [penalty]
    in_burst = sibling_penalty(columns, np.array([0]), pod_requests, "nvidia.com/gpu", burst=True).tolist()
    assert in_burst == [penalty and penalty + LAST]


def test_of_another_sibling_s_equal_nodes_it_takes_first_the_one_that_their_owner_fills_last() -> None:
    nodes = [node(f"gpu-{i}") for i in range(12)]
    one, other = siblings(nodes, "a", "b")
    theirs = [name for name in names(placed(other, stored("p", 8))) if _own(other, name)]
    for name, row in one.nodes.row_of.items():
        if one.nodes.columns.order[row] < OTHER_SIBLING:
            one.pod_seen(stored(f"full-{name}", 8, on=name), 0)
    assert names(placed(one, stored("p", 8))) == theirs[::-1]


def _own(of: ClusterState, name: str) -> bool:
    return bool(of.nodes.columns.order[of.nodes.row_of[name]] < OTHER_SIBLING)


def test_preferences_and_fewest_peers_come_before_the_owner_of_a_node() -> None:
    (of, _) = siblings([node(f"gpu-{i}", labels={"pool": "ab"[i % 2]}) for i in range(12)], "a", "b")
    other = next(name for name, row in of.nodes.row_of.items() if of.nodes.columns.order[row] >= OTHER_SIBLING)
    wish = affinity(preferred=[(1, expression(HOSTNAME, "In", other))])
    assert names(placed(of, stored("p", affinity=wish)))[0] == other
    for name in of.nodes.row_of.keys() - {other}:
        of.pod_seen(stored(f"x-{name}", owner="o", on=name), 0)
    assert names(placed(of, stored("p", owner="o"), "apart"))[0] == other
