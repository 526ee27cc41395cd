"""Replicas that choose at the same time do not choose the same nodes; one that is alone is not touched by any of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import GPUS
from tests.cluster.objects import GPU, admitted, node, placer, pod, state
from webhook.cluster.node_table import Demand, View
from webhook.cluster.pods import HOSTNAME
from webhook.cluster.replica_shares import OTHER_REPLICA
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Placement, Ranked
from webhook.placement.constraints import compiled
from webhook.placement.filters import Filter
from webhook.placement.node_scores import NodeScores
from webhook.placement.settings import Health, PlacementSettings
from webhook.placement.strategies import STRATEGIES

Object = dict[str, Any]


def placed(of: ClusterState, made: Object, strategy: str = "pack") -> Placement:
    return placer(of).place(made, of.view(0), PlacementSettings(), strategy, GPUS)


def names(placement: Placement) -> list[str]:
    return [ranked.node for ranked in placement.nodes]


def replicas(nodes: list[Object], *names: str) -> list[ClusterState]:
    """What each of these sees of the same cluster."""
    found = [state(nodes, replica=name) for name in names]
    for of in found:
        of.nodes.share(names)
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_replica_that_is_alone_chooses_as_one_without_a_name(strategy: str) -> None:
    nodes, bound = [node(f"gpu-{i}", 8 - i % 3) for i in range(20)], [pod(f"x{i}", 1, on=f"gpu-{i}") for i in range(9)]
    of = state(nodes, bound, replica="a")
    of.nodes.share(("a", "b"))
    of.nodes.share(("a",))
    assert placed(of, pod("p", 2, owner="o"), strategy) == placed(state(nodes, bound), pod("p", 2, owner="o"), strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("gpus", [1, 8])
def test_replicas_that_have_not_heard_of_each_other_fill_different_nodes(strategy: str, gpus: int) -> None:
    nodes = [node(f"gpu-{i}", cpu=str(96 + i / 1000)) for i in range(30)]
    chosen: list[set[str]] = []
    for of in replicas(nodes, "a", "b", "c"):
        chosen.append(set())
        for number in range(5):
            made = admitted(pod(f"p{number}", gpus))
            placement = placed(of, made, strategy)
            of.reserve_pod(made, placement, 0)
            chosen[-1].add(placement.nodes[0].node)
    assert len(set.union(*chosen)) == sum(map(len, chosen))


def test_a_replica_whose_nodes_are_full_takes_another_s_with_most_room() -> None:
    nodes = [node(f"gpu-{i}") for i in range(12)]
    (of, _) = replicas(nodes, "a", "b")
    others = sorted(name for name, row in of.nodes.row_of.items() if of.nodes.shares.penalty[row] >= OTHER_REPLICA)
    others = others[:6]
    for name in of.nodes.row_of.keys() - set(others):
        of.pod_seen(pod(f"full-{name}", 8, on=name), 0)
    for number, name in enumerate(others):
        of.pod_seen(pod(f"some-{name}", 7 - number, on=name), 0)
    assert names(placed(of, pod("p"))) == others[::-1]
    of.nodes.share(("a",))
    assert names(placed(of, pod("p"))) == others


def test_of_equal_nodes_a_replica_takes_first_what_their_owner_fills_last() -> None:
    nodes = [node(f"gpu-{i}") for i in range(12)]
    one, other = replicas(nodes, "a", "b")
    theirs = [name for name in names(placed(other, pod("p", 8))) if _own(other, name)]
    for name, row in one.nodes.row_of.items():
        if one.nodes.shares.penalty[row] < OTHER_REPLICA:
            one.pod_seen(pod(f"full-{name}", 8, on=name), 0)
    assert names(placed(one, pod("p", 8))) == theirs[::-1]


def _own(of: ClusterState, name: str) -> bool:
    return bool(of.nodes.shares.penalty[of.nodes.row_of[name]] < OTHER_REPLICA)


def test_a_wish_and_the_fewest_peers_come_before_whose_a_node_is() -> None:
    (of, _) = replicas([node(f"gpu-{i}", labels={"pool": "ab"[i % 2]}) for i in range(12)], "a", "b")
    other = next(name for name, row in of.nodes.row_of.items() if of.nodes.shares.penalty[row] >= OTHER_REPLICA)
    term = {"weight": 1, "preference": {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [other]}]}}
    wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert names(placed(of, pod("p", affinity=wish)))[0] == other
    for name in of.nodes.row_of.keys() - {other}:
        of.pod_seen(pod(f"x-{name}", owner="o", on=name), 0)
    assert names(placed(of, pod("p", owner="o"), "apart"))[0] == other


def scores(gpus: int) -> NodeScores:
    constraints = compiled({})
    assert constraints is not None
    asked = {GPU: gpus} if gpus else {"cpu": 1000}
    demand = Demand(tuple(sorted({**asked, "pods": 1}.items())))
    return NodeScores(Filter(constraints, Health()), demand, STRATEGIES["pack"], GPU if gpus else None)


@given(st.data(), st.sampled_from([0, 1, 3]))
@settings(max_examples=60, deadline=None)
def test_scores_that_were_kept_equal_new_ones_to_the_bit_whoever_comes_and_takes(
    data: st.DataObject, gpus: int
) -> None:
    number = data.draw(st.integers(1, 80))
    of = state([node(f"n{i:02}") for i in range(number)], replica="a")
    kept, view = scores(gpus), View(1, (GPU,))
    known, waiting = sorted(of.nodes.row_of), list[Object]()
    for step in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(known))
        what = data.draw(st.integers(0, 5))
        if what == 0:
            of.nodes.share(("a", *data.draw(st.lists(st.sampled_from("bcd"), unique=True, max_size=2))))
        elif what == 1:
            of.node_seen(node(f"m{step}"))
        elif what == 2:
            of.pod_gone(pod(f"p{data.draw(st.integers(0, 9))}"), 0)
        elif what == 3:
            waiting.append(pod(f"w{step}", data.draw(st.integers(1, 8)), ranked=[name]))
            of.reserve_pod(admitted(waiting[-1]), Placement((Ranked(name, 8, 0, 1.0),), "pack"), 0)
        elif what == 4 and waiting:
            of.pod_seen(waiting.pop(), 0)
        else:
            ranked = [name] if data.draw(st.booleans()) else []
            on = name if data.draw(st.booleans()) else None
            of.pod_seen(pod(f"p{step}", data.draw(st.integers(0, 8)), ranked=ranked, on=on), 0)
        kept.refresh(of.nodes, view)
        new = scores(gpus)
        new.refresh(of.nodes, view)
        rows = of.nodes.columns.rows
        assert np.array_equal(kept.score[:rows], new.score[:rows])
        assert kept.best(of.nodes, 10, set()) == new.best(of.nodes, 10, set())
