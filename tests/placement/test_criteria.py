"""The order of criteria: each one decides between two nodes that are equal by all before it, and against all after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.placement.placed import affinity, expression, placed
from tests.state.objects import node, pod, state
from webhook.placement.order import CRITERIA, NAME
from webhook.state.state import ClusterState

Object = dict[str, Any]
SOFT = {"key": "spot", "effect": "PreferNoSchedule"}
SPREAD = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}


CASES: dict[str, tuple[list[Object], list[Object], Object, str]] = {
    "penalty": ([node("a", taints=[SOFT]), node("b")], [pod("x", 1, on="b")], pod("p"), "spread"),
    "preference": (
        [node("a", labels={"fast": "no"}), node("b", labels={"fast": "yes"})],
        [pod("x", 1, on="b")],
        pod("p", affinity=affinity(preferred=[(1, expression("fast", "In", "yes"))])),
        "spread",
    ),
    "wholeGpus": (
        [node("a", labels={"nvidia.com/gpu.replicas": "4"}), node("b")],
        [pod("x", 1, on="b")],
        pod("p", 2),
        "spread",
    ),
    "peerRules": (
        [node("a", labels={"rack": "1"}), node("b", labels={"rack": "2"})],
        [pod("x", 1, on="a", owner="o"), pod("y", 7, on="b")],
        pod("p", owner="o", topologySpreadConstraints=[SPREAD]),
        "spread",
    ),
    "peers": (
        [node("a"), node("b")],
        [pod("x", 1, on="a", owner="o"), pod("y", 7, on="b")],
        pod("p", owner="o"),
        "spread",
    ),
    "score": ([node("a"), node("b")], [pod("y", 1, on="a")], pod("p"), "spread"),
    NAME: ([node("b"), node("a")], [], pod("p"), "spread"),
}


def rejecting(of: ClusterState, node: str, times: int) -> None:
    """This node rejects so many pods of team-a."""
    for number in range(times):
        of.pod_seen(pod(f"r{number}", 1, on=node), 0.0)
        failed = pod(f"r{number}", 1, on=node, phase="Failed")
        of.pod_seen(failed | {"status": {**failed["status"], "reason": "UnexpectedAdmissionError"}}, 0.0)


@pytest.mark.parametrize(("times", "first", "by"), [(0, "a", NAME), (2, "a", NAME), (3, "b", "rejections")])
def test_a_node_that_rejects_pods_again_and_again_ranks_last_and_is_not_excluded(
    times: int, first: str, by: str
) -> None:
    of = state([node("a"), node("b")])
    rejecting(of, "a", times)
    found = placed(of, pod("p"), "pack")
    assert (found.nodes[0].node, found.decided, len(found.nodes)) == (first, by, 2)
    of.view(600.0)
    assert placed(of, pod("p"), "pack").decided == NAME


def test_pods_of_another_namespace_go_where_they_went() -> None:
    of = state([node("a"), node("b")])
    rejecting(of, "a", 5)
    other = pod("p")
    other["metadata"]["namespace"] = "team-b"
    assert placed(of, other, "pack").nodes[0].node == "a"


@pytest.mark.parametrize(("name", "case"), CASES.items())
def test_the_criterion_that_decided_is_named(name: str, case: tuple[list[Object], list[Object], Object, str]) -> None:
    nodes, taken, made, strategy = case
    found = placed(state(nodes, taken), made, strategy)
    assert found.decided == name
    assert found.nodes[0].node == ("a" if name == NAME else "b")


def test_without_a_second_node_nothing_decided() -> None:
    assert placed(state([node("a")]), pod("p"), "pack").decided == ""


def test_the_documentation_has_the_criteria_in_their_order() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text()
    names = [f"`{criterion.name}`" for criterion in CRITERIA]
    assert ", ".join(names) in " ".join(page.split())
