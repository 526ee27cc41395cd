"""Which nodes have GPUs in ResourceSlices of DRA."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.objects import node, state


def piece(name: str, node: str | None = "gpu-a", driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    spec = {"driver": driver, "pool": {"name": "p"}} | ({"nodeName": node} if node else {"allNodes": True})
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    "of_no_node",
    [
        pytest.param(piece("s", driver="dra.cpu.example"), id="of another device"),
        pytest.param(piece("s", node=None), id="of devices that no node has alone"),
    ],
)
def test_a_slice_without_gpus_of_one_node_does_not_count(of_no_node: dict[str, Any]) -> None:
    of = state([node("gpu-a", None)])
    of.slices.seen(of_no_node)
    assert of.nodes.dra == set()


def test_a_node_has_gpus_until_its_last_slice_is_deleted() -> None:
    of = state([node("gpu-a", None), node("gpu-b", None)])
    of.replace("resourceslices", [piece("s"), piece("t"), piece("u", "gpu-b")], 0)
    assert of.nodes.dra == {"gpu-a", "gpu-b"}
    of.slices.seen(piece("s"))
    of.slices.gone("s")
    assert of.nodes.dra == {"gpu-a", "gpu-b"}
    of.replace("resourceslices", [piece("u", "gpu-b")], 1)
    of.slices.gone("never seen")
    assert of.nodes.dra == {"gpu-b"}


def test_a_slice_that_moves_counts_for_its_new_node_only() -> None:
    of = state()
    of.slices.seen(piece("s"))
    of.slices.seen(piece("s", "gpu-b"))
    assert of.nodes.dra == {"gpu-b"}
