"""Which nodes have GPUs by ResourceSlices of DRA."""

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
def test_a_slice_that_gives_no_node_a_gpu_counts_for_nothing(of_no_node: dict[str, Any]) -> None:
    of = state([node("gpu-a", None)])
    of.slices.seen(of_no_node)
    assert of.nodes.dra == set()


def test_a_node_has_gpus_for_as_long_as_one_of_its_slices_is_there() -> None:
    of = state([node("gpu-a", None), node("gpu-b", None)])
    of.replace("resourceslices", [piece("s"), piece("t"), piece("u", "gpu-b")], 0)
    assert of.nodes.dra == {"gpu-a", "gpu-b"}
    of.slices.seen(piece("s"))
    of.slices.gone("s")
    assert of.nodes.dra == {"gpu-a", "gpu-b"}
    of.replace("resourceslices", [piece("u", "gpu-b")], 1)
    of.slices.gone("never seen")
    assert of.nodes.dra == {"gpu-b"}


def test_a_slice_that_moves_is_of_its_new_node_alone() -> None:
    of = state()
    of.slices.seen(piece("s"))
    of.slices.seen(piece("s", "gpu-b"))
    assert of.nodes.dra == {"gpu-b"}
