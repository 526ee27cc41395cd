"""Which replicas there are, by their pods; and whose a node is to fill.

Covers cluster.replica_shares.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.objects import admitted, node, pod, state
from webhook.cluster.replica_shares import OTHER_REPLICA
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Placement, Ranked

NODES = [node(f"gpu-{i:02}") for i in range(60)]
LABELS = {"app.kubernetes.io/name": "gpu-admission"}


def replica(name: str, *, namespace: str = "gpu-admission", ready: str = "True", **metadata: Any) -> dict[str, Any]:
    """The pod of a replica."""
    made = pod(name, 0)
    made["metadata"] |= {"namespace": namespace, "labels": LABELS} | metadata
    made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
    return made


def shared(name: str, *others: str, nodes: list[dict[str, Any]] | None = None) -> ClusterState:
    return state(NODES if nodes is None else nodes, [replica(other) for other in (name, *others)], replica=name)


def own(of: ClusterState) -> set[str]:
    """The nodes that are this replica's to fill."""
    return {name for name, row in of.nodes.row_of.items() if of.nodes.shares.penalty[row] < OTHER_REPLICA}


def everything() -> set[str]:
    return {made["metadata"]["name"] for made in NODES}


# --- who counts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(replica("b", namespace="team-a"), id="a tenant's pod that looks like one"),
        pytest.param(replica("b", labels={"app.kubernetes.io/name": "prometheus"}), id="another program beside us"),
        pytest.param(replica("b", labels=None), id="a pod without labels"),
        pytest.param(replica("b", ready="False"), id="one that is not ready"),
        pytest.param(replica("b", deletionTimestamp="2026-01-01T00:00:00Z"), id="one that is on its way out"),
        pytest.param(replica("b") | {"status": {"phase": "Failed"}}, id="one that has failed"),
        pytest.param(replica("b") | {"status": {}}, id="one that nothing is known of"),
        pytest.param(replica("a"), id="this one itself"),
    ],
)
def test_a_replica_that_is_alone_fills_all_nodes(made: dict[str, Any]) -> None:
    of = state(NODES, [made], replica="a")
    assert of.replicas.names == ("a",)
    assert not of.nodes.shares.several
    assert own(of) == everything()


def test_without_a_name_there_are_no_others() -> None:
    assert not state(NODES, [replica("a"), replica("b")]).nodes.shares.several


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param(lambda of: of.pod_gone(replica("b"), 1), id="it is deleted"),
        pytest.param(lambda of: of.pod_seen(replica("b", ready="False"), 1), id="it is not ready any more"),
        pytest.param(lambda of: of.pod_seen(replica("b") | {"status": {"phase": "Succeeded"}}, 1), id="it ends"),
        pytest.param(lambda of: of.replace("pods", [replica("a")], 1), id="a fresh list does not name it"),
    ],
)
def test_a_replica_counts_from_when_it_is_ready_until_it_is_not(ends: Any) -> None:
    of = shared("a")
    of.pod_seen(replica("b"), 0)
    assert of.replicas.names == ("a", "b")
    assert own(of) != everything()
    ends(of)
    assert of.replicas.names == ("a",)
    assert own(of) == everything()


# --- whose a node is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [("a", "b"), ("a", "b", "c"), ("gpu-admission-7d9f-x2x4z", "gpu-admission-7d9f-q8p6w")]
)
def test_each_node_is_for_one_replica_and_each_replica_has_its_part(names: tuple[str, ...]) -> None:
    parts = [own(shared(*[name, *[other for other in names if other != name]])) for name in names]
    assert set.union(*parts) == everything()
    assert sum(map(len, parts)) == len(NODES)
    assert min(map(len, parts)) > len(NODES) / len(names) / 2


def test_a_replica_that_comes_takes_from_the_others_and_moves_nothing_between_them() -> None:
    before, after = own(shared("a", "b")), own(shared("a", "b", "c"))
    assert after < before
    assert own(shared("b", "a", "c")) < own(shared("b", "a"))


def test_nodes_that_come_later_are_shared_out_as_those_that_were_there() -> None:
    of = shared("a", "b", nodes=[])
    for made in NODES:  # more than the first arrays hold, with those that follow
        of.node_seen(made)
    for i in range(80):
        of.node_seen(node(f"more-{i}"))
    assert own(of) & everything() == own(shared("a", "b"))


def hold(of: ClusterState, name: str, on: str, gpus: int = 1) -> dict[str, Any]:
    """The pod as it is stored, admitted here with a reservation on a node."""
    made = pod(name, gpus, ranked=[on])
    of.reserve_pod(admitted(made), Placement((Ranked(on, 8, 0, 1.0),), "pack"), 0)
    return made


def test_a_node_is_for_who_put_a_pod_there_first_until_it_is_empty_again() -> None:
    here, there = shared("a", "b"), shared("b", "a")
    taken = min(own(there))
    for name in ("first", "later"):
        made = hold(here, name, taken)
        assert (taken in own(here), taken in own(there)) == (False, True)
        for of in (here, there):
            of.pod_seen(made, 0)
        assert (taken in own(here), taken in own(there)) == (True, False)
        for of in (here, there):
            of.pod_seen({**made, "spec": {**made["spec"], "nodeName": taken}}, 0)
        assert (taken in own(here), taken in own(there)) == (True, False)
        for of in (here, there):
            of.pod_gone(made, 0)
        assert (taken in own(here), taken in own(there)) == (False, True)


def test_of_two_that_choose_a_node_at_once_it_is_for_the_one_whose_pod_is_first_in_the_watch() -> None:
    here, there = shared("a", "b"), shared("b", "a")
    one = min(own(there))
    mine, yours = hold(here, "p", one), hold(there, "q", one)
    for of in (here, there):
        of.pod_seen(mine, 0)
        of.pod_seen(yours, 0)
    assert (one in own(here), one in own(there)) == (True, False)


def test_a_pod_without_gpus_takes_no_node_from_anybody() -> None:
    here = shared("a", "b")
    other = min(everything() - own(here))
    here.pod_seen(hold(here, "p", other, gpus=0), 0)
    assert other not in own(here)
