"""Simulated nodes, and the clusters made of them."""

import json

import pytest

from tests.controlplane import clusters
from tests.controlplane.nodes import GPU_TAINT, node


def test_the_two_nodes_differ_only_in_the_image_that_one_has() -> None:
    first, second = clusters.cluster("two-node")
    assert second["status"].pop("images") == [{"names": [clusters.IMAGE], "sizeBytes": 20_000_000_000}]
    assert first["status"].pop("images") == []
    assert first["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    same = json.dumps(second).replace(second["metadata"]["name"], first["metadata"]["name"])
    assert json.loads(same) == first


@pytest.mark.parametrize("name", ["8x8", "8×8"])
def test_a_cluster_of_n_nodes_with_g_gpus(name: str) -> None:
    nodes = clusters.cluster(name, taints=[GPU_TAINT])
    assert [each["metadata"]["name"] for each in nodes] == [f"gpu-{number}" for number in range(8)]
    assert {each["status"]["capacity"]["nvidia.com/gpu"] for each in nodes} == {"8"}
    assert {each["spec"]["taints"][0]["key"] for each in nodes} == {"nvidia.com/gpu"}


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


@pytest.mark.parametrize("text", ["nvidia.com/gpu", "a=b", "a:Sometimes", ""])
def test_a_taint_that_kubectl_would_not_take_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="wanted key=value:Effect"):
        node("n", taints=[text])


def test_more_resources_and_labels_win() -> None:
    found = node("n", labels={"nvidia.com/gpu.product": "other"}, resources={"amd.com/gpu": "4", "nvidia.com/gpu": "7"})
    assert found["metadata"]["labels"]["nvidia.com/gpu.product"] == "other"
    assert found["status"]["allocatable"]["amd.com/gpu"] == "4"
    assert found["status"]["allocatable"]["nvidia.com/gpu"] == "7"
