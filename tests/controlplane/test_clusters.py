"""Simulated nodes, and the clusters made of them."""

import pytest

from tests.controlplane import clusters
from tests.controlplane.nodes import node


@pytest.mark.parametrize("name", ["three-node", "8by8", "x8", ""])
def test_an_unknown_cluster_is_refused_with_the_ones_there_are(name: str) -> None:
    with pytest.raises(ValueError, match="two-node, pools, N×G"):
        clusters.cluster(name)


def test_a_node_that_is_not_ready_carries_what_the_controllers_would_add() -> None:
    found = node("n", ready=False, cordoned=True, taints=["a=b:NoExecute", "c:PreferNoSchedule"])
    assert [f"{each['key']}:{each['effect']}" for each in found["spec"]["taints"]] == [
        "a:NoExecute",
        "c:PreferNoSchedule",
        "node.kubernetes.io/unschedulable:NoSchedule",
        "node.kubernetes.io/not-ready:NoSchedule",
    ]
    assert found["status"]["conditions"][0]["status"] == "False"
