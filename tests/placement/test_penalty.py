"""Nodes with a penalty come last, whatever their score, and are used if no other node fits.

Covers placement.feasible.
"""

from typing import Any

import pytest

from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.placement.placed import names, placed
from tests.state.objects import state, stored
from webhook.placement.strategies import STRATEGIES

EVERYTHING = [{"operator": "Exists"}]


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("tolerations", "about"),
    [
        pytest.param([], {"taints": [taint("team", "PreferNoSchedule")]}, id="a soft taint"),
        pytest.param(
            [{"key": "team", "operator": "Equal", "value": "other"}],
            {"taints": [taint("team", "PreferNoSchedule", "this")]},
            id="a soft taint of another value",
        ),
        pytest.param(EVERYTHING, {"cordoned": True}, id="a cordon"),
        *[
            pytest.param(EVERYTHING, {"taints": [taint(f"node.kubernetes.io/{key}")]}, id=key)
            for key in ("memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable", "unschedulable")
        ],
        pytest.param([], {"conditions": {"DiskPressure": "True"}}, id="pressure, and no taint yet"),
        *[
            pytest.param(EVERYTHING, {"taints": [taint(key, effect)]}, id=f"{key} {effect}")
            for key in (
                *("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted"),
                *("karpenter.sh/disruption", "node.cloudprovider.kubernetes.io/shutdown"),
                *("cloud.google.com/impending-node-termination", "aws-node-termination-handler/spot-itn"),
            )
            for effect in ("NoSchedule", "PreferNoSchedule")
        ],
    ],
)
def test_a_node_with_a_penalty_comes_last_and_is_used_if_no_other_has_room(
    strategy: str, tolerations: list[dict[str, str]], about: dict[str, Any]
) -> None:
    full, free = stored("x", 8, on="b"), stored("y", 7, on="a")
    made = stored("p", owner="o", tolerations=tolerations)
    of = state([node("a", **about), node("b")], [free])
    assert names(placed(of, made, strategy)) == ["b", "a"]
    of.pod_seen(full, 0)
    assert names(placed(of, made, strategy)) == ["a"]


def test_a_soft_taint_that_is_tolerated_does_not_count() -> None:
    of = state([node("a", taints=[taint("team", "PreferNoSchedule")]), node("b")], [stored("y", 7, on="a")])
    assert names(placed(of, pod("p", tolerations=[{"key": "team", "operator": "Exists"}]))) == ["a", "b"]


def test_the_higher_the_penalty_the_later_the_node_comes() -> None:
    soft, other = taint("team", "PreferNoSchedule"), taint("window", "PreferNoSchedule")
    of = state(
        [
            node("a", taints=[taint("karpenter.sh/disrupted")]),
            node("b", cordoned=True),
            node("c", taints=[soft, other]),
            node("more", taints=[taint(f"t{number}", "PreferNoSchedule") for number in range(200)]),
            node("d", taints=[soft]),
            node("e"),
        ]
    )
    hard = [{"operator": "Exists", "effect": "NoSchedule"}]
    assert names(placed(of, pod("p", tolerations=hard))) == ["e", "d", "c", "more", "b", "a"]
