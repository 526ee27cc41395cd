"""The order of criteria: each one decides between two nodes that are equal by all before it, and against all after it."""

from typing import Any

import pytest

from tests.controlplane.nodes import node
from tests.devices import dra
from tests.placement.claiming import cluster
from tests.placement.placed import affinity, expression, placed
from tests.state.objects import Object, state, stored
from webhook.nodes.utilisation import UNKNOWN
from webhook.placement.order import CRITERIA, NAME
from webhook.state.state import ClusterState

SOFT = {"key": "spot", "effect": "PreferNoSchedule"}
SPREAD = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
ZONE = "topology.kubernetes.io/zone"
IDLE = UNKNOWN._replace(measured=8, idle=8, utilisation=0.0, hottest=35.0, known=8)
BUSY = IDLE._replace(idle=0, busy=8, utilisation=0.9)


def with_alternatives() -> ClusterState:
    """A claim wants all GPUs of `b`, or else one."""
    wanted = {"firstAvailable": [{"name": f"of-{count}", **dra.exactly(count)} for count in (4, 1)]}
    return cluster([dra.gpus_of("a", 2), dra.gpus_of("b", 4)], [dra.template("any", wanted)])


def of_two_stacks(*pods: Object) -> ClusterState:
    """A device plugin and DRA both hand out the GPUs of `a`."""
    of = state([node("a"), node("b")], pods)
    of.replace("resourceslices", [dra.gpus_of("a", 8)], 0)
    return of


def with_use(of_a: Any, *pods: Object) -> ClusterState:
    of = state([node("a"), node("b")], pods)
    of.nodes.use_seen("a", of_a)
    of.nodes.use_seen("b", IDLE)
    return of


def of_two_replicas() -> ClusterState:
    """`b` is this replica's."""
    of = state([node("a"), node("b")], sibling="x")
    of.nodes.divide(("x", "y"))
    assert of.nodes.divided()
    of.nodes.columns.order[[of.nodes.row_of["a"], of.nodes.row_of["b"]]] = 0.5, 0.4
    return of


def the_last_whole_one() -> ClusterState:
    """`a` is the last whole node of twenty; a replica is on `b`."""
    full = [f"n{number:02}" for number in range(18)]
    pods = [stored("r", 1, on="b", owner="o"), *[stored(f"x-{name}", 8, on=name) for name in full]]
    return state([node(name) for name in ("a", "b", *full)], pods)


def of_job(made: Object) -> Object:
    made["metadata"]["ownerReferences"][0]["kind"] = "Job"
    return made


def rejecting(of: ClusterState, node: str, times: int) -> None:
    """This node rejects so many pods of team-a."""
    for number in range(times):
        of.pod_seen(stored(f"r{number}", 1, on=node), 0.0)
        failed = stored(f"r{number}", 1, on=node, phase="Failed")
        of.pod_seen(failed | {"status": {**failed["status"], "reason": "UnexpectedAdmissionError"}}, 0.0)


def rejecting_on_a(*pods: Object) -> ClusterState:
    of = state([node("a"), node("b")], pods)
    rejecting(of, "a", 3)
    return of


CASES: dict[str, tuple[ClusterState, Object]] = {
    "penalty": (state([node("a", taints=[SOFT]), node("b")], [stored("x", 1, on="b")]), stored("p")),
    "alternatives": (
        with_alternatives(),
        stored("p", 0, resourceClaims=[{"name": "c", "resourceClaimTemplateName": "any"}]),
    ),
    "rejections": (rejecting_on_a(stored("x", 1, on="b")), stored("p")),
    "twoStacks": (of_two_stacks(stored("x", 1, on="b")), stored("p")),
    "preference": (
        state([node("a", labels={"fast": "no"}), node("b", labels={"fast": "yes"})], [stored("x", 1, on="b")]),
        stored("p", affinity=affinity(preferred=[(1, expression("fast", "In", "yes"))])),
    ),
    "wholeGpus": (
        state([node("a", labels={"nvidia.com/gpu.replicas": "4"}), node("b")], [stored("x", 1, on="b")]),
        stored("p", 2),
    ),
    "peerRules": (
        state(
            [node("a", labels={"rack": "1"}), node("b", labels={"rack": "2"})],
            [stored("x", 1, on="a", owner="o"), stored("y", 7, on="b")],
        ),
        stored("p", owner="o", topologySpreadConstraints=[SPREAD]),
    ),
    "gang": (
        state(
            [node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "2"}), node("full", 1, labels={ZONE: "2"})],
            [of_job(stored("x", 1, on="full", owner="o")), stored("y", 1, on="b")],
        ),
        of_job(stored("p", owner="o")),
    ),
    "fitForUse": (with_use(BUSY, stored("x", 1, on="b")), stored("p")),
    "lastWholeNodes": (the_last_whole_one(), stored("p", owner="o")),
    "peers": (
        state([node("a"), node("b")], [stored("x", 1, on="a", owner="o"), stored("y", 7, on="b")]),
        stored("p", owner="o"),
    ),
    "score": (state([node("a"), node("b")], [stored("y", 1, on="a")]), stored("p")),
    "load": (with_use(IDLE._replace(hottest=80.0)), stored("p")),
    "replica": (of_two_replicas(), stored("p")),
    NAME: (state([node("b"), node("a")]), stored("p")),
}
"""Under the strategy `spread` (`apart` for the last whole nodes) the criterion has the pod on `b`, and by name, most often by
score too, it would be on `a`."""


def test_each_criterion_decides_in_a_case() -> None:
    assert [*CASES] == [*[criterion.name for criterion in CRITERIA], NAME]


@pytest.mark.parametrize("name", CASES)
def test_the_criterion_that_decided_is_named(name: str) -> None:
    of, made = CASES[name]
    found = placed(of, made, "apart" if name == "lastWholeNodes" else "spread")
    assert found.decided == name
    assert found.nodes[0].node == ("a" if name == NAME else "b")


@pytest.mark.parametrize(("times", "first", "by"), [(0, "a", NAME), (2, "a", NAME), (3, "b", "rejections")])
def test_a_node_that_rejects_pods_again_and_again_ranks_last_and_is_not_excluded(
    times: int, first: str, by: str
) -> None:
    of = state([node("a"), node("b")])
    rejecting(of, "a", times)
    found = placed(of, stored("p"), "pack")
    assert (found.nodes[0].node, found.decided, len(found.nodes)) == (first, by, 2)
    of.view(600.0)
    assert placed(of, stored("p"), "pack").decided == NAME


def test_pods_of_another_namespace_go_where_they_went() -> None:
    of = state([node("a"), node("b")])
    rejecting(of, "a", 5)
    other = stored("p")
    other["metadata"]["namespace"] = "team-b"
    assert placed(of, other, "pack").nodes[0].node == "a"


def test_without_a_second_node_nothing_decided() -> None:
    assert placed(state([node("a")]), stored("p"), "pack").decided == ""
