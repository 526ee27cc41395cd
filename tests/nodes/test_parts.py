"""What nobody can confirm takes few nodes from other namespaces; a namespace sees all of its own reservations."""

import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.state.objects import GPU, admitted, free, state, stored
from webhook.framework.cluster_view import Placement, Ranked
from webhook.kube.asked import AskedPod
from webhook.nodes.ledger import _MAX_OPEN, _MAX_PRIVATE, Counts, Parts
from webhook.state.state import ClusterState

NODES = [f"n{number:02}" for number in range(40)]


@pytest.mark.parametrize(
    ("nodes", "trusted", "part"),
    [
        pytest.param(1, False, 1, id="one node"),
        pytest.param(7, False, 1, id="one node at least"),
        pytest.param(40, False, 5, id="an eighth"),
        pytest.param(40, True, 10, id="a quarter where strangers cannot ask"),
        pytest.param(5000, False, 625, id="an eighth of many"),
    ],
)
def test_reservations_of_a_namespace_count_for_others_on_its_part_of_the_nodes(
    nodes: int, trusted: bool, part: int
) -> None:
    parts = Parts(trusted=trusted)
    private = [parts.opened("a", f"n{number}", nodes) for number in range(part + 3)]
    assert private == [False] * part + [True] * 3
    assert not parts.opened("a", "n0", nodes), "a node of the part already"


def test_all_parts_together_are_half_of_the_nodes() -> None:
    parts = Parts()
    counted = [
        name for name in "abcdefgh" for number in range(5) if not parts.opened(name, f"{name}{number}", len(NODES))
    ]
    assert counted == [*"aaaaabbbbbcccccddddd"]


def test_a_reservation_that_ends_makes_room_for_another() -> None:
    parts = Parts()
    for _ in range(3):
        assert [parts.opened("a", name, 8) for name in ("x", "x", "y")] == [False, False, True]
        parts.closed("a", "y", private=True)
        parts.closed("a", "x", private=False)
        parts.closed("a", "x", private=False)
    assert (parts._shared, parts._private, parts._all) == ({}, {}, 0)


def test_a_namespace_has_at_most_so_many_open_reservations() -> None:
    parts = Parts()
    for _ in range(_MAX_OPEN):
        parts.opened("a", "x", 8)
    assert (parts.allows("a", "x", 8), parts.allows("b", "x", 8), parts.declined) == (False, True, 1)


def test_private_reservations_of_a_namespace_are_on_a_bounded_number_of_nodes() -> None:
    """A review of another namespace updates all of these nodes."""
    parts = Parts()
    made = [f"n{number}" for number in range(1000)]
    for name in made:
        if parts.allows("a", name, len(made)):
            parts.opened("a", name, len(made))
    assert (len(parts._shared["a"]), len(parts._private["a"])) == (125, _MAX_PRIVATE)
    assert parts.allows("a", "n0", 1000)
    assert parts.allows("a", made[125], 1000)
    assert parts.allows("b", "n999", 1000)


# --- in a cluster state -----------------------------------------------------------------------------------------------


def forty(**settings: bool) -> ClusterState:
    return state([node(name) for name in NODES], **settings)


def ask(of: ClusterState, on: str, gpus: int = 8, namespace: str = "team-a", owner: str = "o") -> None:
    made = admitted(stored("p", gpus, owner=owner))
    made["metadata"]["namespace"] = namespace
    of.reserve(AskedPod(made, GPUS), Placement((Ranked(on, 8, 0, 1.0),), "pack"), 0)


def untouched(of: ClusterState, namespace: str) -> int:
    """How many nodes are free as pods of a namespace see them."""
    of.usage.seen_from(namespace)
    return sum(free(of, name) == 8 for name in NODES)


def test_refused_pods_take_a_part_from_others_and_all_from_themselves() -> None:
    """Of two namespaces, 40 refused pods held all reservations there were, and 120 could hold all 40 nodes."""
    of = forty()
    for number in range(120):
        ask(of, NODES[number % 40], namespace=f"team-{number % 2}", owner=f"o{number}")
    assert {name: untouched(of, name) for name in ("team-0", "team-1", "other")} == {
        "team-0": 15,  # 20 of its own, and 5 of the other
        "team-1": 15,
        "other": 30,
    }
    ask(of, NODES[39], namespace="other")
    assert untouched(of, "other") == 29, "others get theirs"
    of.expire(11)
    assert {untouched(of, name) for name in ("team-0", "team-1", "other")} == {40}
    assert of.usage._private == {}


def test_nodes_that_do_not_offer_what_a_pod_asks_for_are_no_part() -> None:
    """Of 400 nodes the 40 with GPUs could all be held by one namespace."""
    of = state([node(name) for name in NODES] + [node(f"cpu-{number}", 0) for number in range(360)])
    for name in NODES:
        ask(of, name)
    assert untouched(of, "other") == 35


def test_pods_that_were_created_and_deleted_give_no_right_to_more() -> None:
    of = forty()
    for number in range(200):
        made = stored(f"p{number}", 0, owner="o", ranked=[NODES[0]])
        of.pod_seen(made, 0)
        of.pod_gone(made)
    for name in NODES:
        ask(of, name)
    assert untouched(of, "other") == 35


@pytest.mark.parametrize("bound", [pytest.param(False, id="seen"), pytest.param(True, id="bound before it was seen")])
def test_a_reservation_counts_for_all_once_its_pod_is_seen(bound: bool) -> None:
    of = forty()
    for name in NODES:
        ask(of, name)
    assert (untouched(of, "other"), of.ledger.counts) == (35, Counts(40, 0))
    for number, name in enumerate(NODES):
        of.pod_seen(stored(f"p{number}", 8, owner="o", ranked=[name], on=name if bound else None), 1)
    assert (untouched(of, "other"), of.ledger.counts) == (0, Counts(0, 0 if bound else 40))
    assert (of.usage._private, of.ledger.parts._shared, of.ledger.parts._private) == ({}, {}, {})
    assert of.ledger.honoured["first"] == (40 if bound else 0)


def test_a_burst_sees_all_of_its_reservations_however_late_the_watch_is() -> None:
    of = forty()
    for number in range(320):
        of.usage.seen_from("team-a")
        assert free(of, NODES[number // 8]) == 8 - number % 8
        ask(of, NODES[number // 8], 1)
    assert of.ledger.counts == Counts(320, 0)


def test_private_amounts_of_a_new_resource_are_counted() -> None:
    of = forty()
    extra = "example.com/fast-disk"
    made = admitted(stored("p", 8, owner="o", limits={extra: "1"}))
    for name in NODES:
        of.reserve(AskedPod(made, GPUS), Placement((Ranked(name, 8, 0, 1.0),), "pack"), 0)
    of.usage.seen_from("team-a")
    for name in NODES:
        of.node_seen(node(name, resources={extra: "4"}))
    assert {free(of, name, extra) for name in NODES} == {3}
    of.usage.seen_from("other")
    assert sorted(free(of, name, extra) for name in NODES) == [3] * 5 + [4] * 35


def test_a_node_that_is_deleted_under_private_reservations_keeps_its_row_until_they_end() -> None:
    of = forty()
    for name in NODES[:6]:
        ask(of, name)
    for name in NODES:
        of.node_gone(name)
    of.node_seen(node("new"))
    for namespace in ("team-a", "other"):
        of.usage.seen_from(namespace)
        assert free(of, "new") == 8
    of.expire(11)
    assert list(of.nodes.row_of) == ["new"]
    assert int(of.nodes.columns.free[GPU][of.nodes.row_of["new"]]) == 8
