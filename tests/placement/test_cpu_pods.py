"""What pods without GPUs, which the scheduler spreads by itself, will leave of the CPU of GPU nodes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.state.objects import Object, placer, state, stored
from webhook.kube.asked import AskedPod
from webhook.nodes.table import Columns
from webhook.placement.cpu_pods import cpu_left
from webhook.placement.settings import PlacementSettings
from webhook.state.state import ClusterState

CPU_POD: dict[str, Any] = {"limits": {"cpu": "10"}, "on": "gpu-a"}


def of_controller(kind: str, made: Object) -> Object:
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": "o", "uid": "o", "controller": True}]
    return made


def roaming(of: ClusterState, name: str = "gpu-a") -> int:
    return int(of.nodes.columns.roaming[of.nodes.row_of[name]])


@pytest.mark.parametrize(
    ("made", "counted"),
    [
        pytest.param(stored("p", 0, **CPU_POD), 10_000, id="a pod without GPUs"),
        pytest.param(of_controller("ReplicaSet", stored("p", 0, **CPU_POD)), 10_000, id="one of a Deployment"),
        pytest.param(
            of_controller("DaemonSet", stored("p", 0, **CPU_POD)), 0, id="one of a DaemonSet goes nowhere else"
        ),
        pytest.param(of_controller("Node", stored("p", 0, **CPU_POD)), 0, id="nor does a static pod"),
        pytest.param(stored("p", 1, **CPU_POD), 0, id="a GPU pod"),
        pytest.param(stored("p", 0, ranked=["gpu-a"], **CPU_POD), 0, id="one for which we rank nodes"),
        pytest.param(stored("p", 0, resourceClaims=[{"name": "c"}], **CPU_POD), 0, id="one with a claim"),
        pytest.param(stored("p", 0, limits={"cpu": "10"}), 0, id="one that is not bound"),
    ],
)
def test_only_pods_that_the_scheduler_spreads_by_itself_count(made: Object, counted: int) -> None:
    of = state([node("gpu-a")], [made])
    assert roaming(of) == counted
    of.pod_gone(made)
    assert roaming(of) == 0


def level(
    cpu: list[int], roams: list[int], gpus_free: list[int], status: list[int] | None = None
) -> tuple[float, list[float]]:
    """The level, and the most CPU by row, of nodes of 100 CPUs and 8 GPUs with this CPU free, and held by such pods."""
    columns, rows = Columns(), len(cpu)
    columns.rows = rows
    columns.add_resource("cpu")
    columns.alive[:rows] = True
    columns.capacity["cpu"][:rows], columns.free["cpu"][:rows] = 100, cpu
    columns.roaming[:rows], columns.status[:rows] = roams, status or [0] * rows
    left = cpu_left(columns, np.full(rows, 8.0), np.array(gpus_free, float))
    return left.part, left.most(columns, np.arange(rows)).round(2).tolist()


@pytest.mark.parametrize(
    ("of", "most"),
    [
        pytest.param(([90, 90], [0, 0], [7, 7]), [100, 100], id="without such pods all that is free stays free"),
        pytest.param(([80, 80], [20, 20], [4, 4]), [60, 60], id="as much for a free GPU as for a taken one"),
        pytest.param(([80, 100], [20, 0], [4, 6]), [73.33, 73.33], id="the emptiest node is filled first"),
        pytest.param(
            ([20, 100], [20, 0], [4, 6]), [66.67, 66.67], id="a node that is fuller than the others gets none"
        ),
        pytest.param(([80, 80], [60, 60], [7, 7]), [56, 56], id="at most three tenths of what is free"),
        pytest.param(([80, 80], [20, 20], [8, 8]), [100, 100], id="without GPU pods nothing is foreseen"),
        pytest.param(([80, 100], [20, 0], [4, 8], [0, 1]), [60, 100], id="a node with a taint keeps its CPU"),
    ],
)
def test_what_will_be_left(of: Any, most: list[float]) -> None:
    assert level(*of)[1] == pytest.approx(most, abs=0.01)


@given(st.lists(st.tuples(st.integers(-5, 100), st.integers(0, 100), st.integers(-1, 8)), min_size=1, max_size=8))
def test_the_level_is_a_part_and_more_such_pods_leave_less(rows: list[tuple[int, int, int]]) -> None:
    cpu, roams, gpus = (list(each) for each in zip(*rows, strict=True))
    part = level(cpu, roams, gpus)[0]
    assert 0 <= part <= 1
    assert level(cpu, [2 * each for each in roams], gpus)[0] <= part


def first(controller: str, taint: str = "") -> str:
    """The first choice for one GPU between gpu-a, half used, and gpu-b, which is whole, beside three full nodes where a quarter
    of the CPU is held by pods of this controller without GPUs. Nothing else comes to a node with the taint."""
    full = ["gpu-c", "gpu-d", "gpu-e"]
    of = state(
        [
            node(name, cpu=cpu, taints=["only=gpus:NoSchedule"] if name == taint else [])
            for name, cpu in {"gpu-a": "128", "gpu-b": "96", **dict.fromkeys(full, "128")}.items()
        ]
    )
    of.pod_seen(stored("half", 4, on="gpu-a", limits={"cpu": "74"}, phase="Running"), 0)
    for name in full:
        of.pod_seen(stored(f"r-{name}", 8, on=name, limits={"cpu": "96"}, phase="Running"), 0)
        of.pod_seen(of_controller(controller, stored(f"c-{name}", 0, on=name, limits={"cpu": "30"})), 0)
    made = stored("p", 1, limits={"cpu": "12"}, tolerations=[{"operator": "Exists"}])
    return placer(of).place(AskedPod(made, GPUS), of.view(0), PlacementSettings(), "pack").nodes[0].node


@pytest.mark.parametrize(
    ("controller", "taint", "node_name"),
    [
        pytest.param("DaemonSet", "", "gpu-a", id="a whole node is kept, since nothing else comes there"),
        pytest.param("ReplicaSet", "", "gpu-b", id="it is used while its GPUs have CPU"),
        pytest.param("ReplicaSet", "gpu-b", "gpu-a", id="a taint keeps its CPU"),
    ],
)
def test_a_node_is_kept_whole_while_its_gpus_will_have_cpu(controller: str, taint: str, node_name: str) -> None:
    assert first(controller, taint) == node_name
