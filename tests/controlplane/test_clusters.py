"""Simulated nodes, and the clusters made of them."""

import pytest

from tests.controlplane import clusters
from tests.controlplane.nodes import node


@pytest.mark.parametrize("name", ["three-node", "8by8", "x8", ""])
def test_an_unknown_cluster_is_refused_with_the_ones_there_are(name: str) -> None:
    with pytest.raises(ValueError, match="two-node, pools, N×G"):
        clusters.cluster(name)


def _labels(name: str) -> dict[str, str]:
    (found,) = (each for each in clusters.cluster("pools") if each["metadata"]["name"] == name)
    labels: dict[str, str] = found["metadata"]["labels"]
    return labels


def test_the_pools_have_one_of_each_kind() -> None:
    nodes = {each["metadata"]["name"]: each for each in clusters.cluster("pools")}
    assert {each["metadata"]["labels"][clusters.POOL] for each in nodes.values()} == {
        "inference", "training", "spot", "mig", "shared", "general",
    }  # fmt: skip
    assert [name for name, each in nodes.items() if each["spec"].get("unschedulable")] == ["inference-cordoned"]
    assert _labels("training-upgrade-failed")["nvidia.com/gpu-driver-upgrade-state"] == "upgrade-failed"
    assert nodes["mig-a"]["status"]["capacity"]["nvidia.com/mig-1g.10gb"] == "14"
    assert nodes["mig-a"]["status"]["capacity"]["nvidia.com/gpu"] == "0"
    assert _labels("mig-a")["nvidia.com/mig.strategy"] == "mixed"
    assert nodes["shared-a"]["status"]["capacity"]["nvidia.com/gpu"] == "16"
    assert _labels("shared-a")["nvidia.com/gpu.product"] == "Tesla-T4-SHARED"
    assert nodes["shared-renamed"]["status"]["capacity"]["nvidia.com/gpu.shared"] == "8"
    assert _labels("shared-renamed")["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    assert "nvidia.com/gpu" not in nodes["cpu-a"]["status"]["capacity"]
    assert not [label for label in _labels("cpu-a") if label.startswith("nvidia.com/")]
    assert "taints" not in nodes["cpu-a"]["spec"]


def test_a_node_that_is_not_ready_carries_what_the_controllers_would_add() -> None:
    found = node("n", ready=False, cordoned=True, taints=["a=b:NoExecute", "c:PreferNoSchedule"])
    assert [f"{each['key']}:{each['effect']}" for each in found["spec"]["taints"]] == [
        "a:NoExecute",
        "c:PreferNoSchedule",
        "node.kubernetes.io/unschedulable:NoSchedule",
        "node.kubernetes.io/not-ready:NoSchedule",
    ]
    assert found["status"]["conditions"][0]["status"] == "False"
