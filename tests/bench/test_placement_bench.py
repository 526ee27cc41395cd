"""The benchmark of placement runs on a trace of our own making, and measures what it says."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.placement import main, verdict
from bench.replay import POLICIES, Options, replay
from bench.simulator import Fleet
from bench.traces import Node, Shape, Trace, TraceError, load, of_cluster
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod

DATA = Path(__file__).parent / "data"
NODES, PODS = DATA / "nodes.csv", DATA / "pods.csv"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load(NODES, PODS)


def run(trace: Trace, policy: str, options: Options, seeds: int = 2) -> tuple[float, float]:
    """Unallocated percent and refused 8-GPU percent, means."""
    found = [replay(trace, POLICIES[policy], seed, options) for seed in range(seeds)]
    return float(np.mean([r.unallocated for r in found])), float(np.mean([r.refused[8] for r in found]))


def test_what_a_pod_took_is_free_again_when_it_leaves(trace: Trace) -> None:
    fleet = Fleet(trace.nodes, shared=True)
    before = fleet.devices.copy(), {name: free.copy() for name, free in fleet.views[0].free.items()}
    taken = [
        (shape, fleet.bind(0, shape))
        for shape in (Shape(1000, 10, 1, 300), Shape(1000, 10, 1, 500), Shape(1000, 10, 2, 1000))
    ]
    assert taken[0][1] == taken[1][1]  # parts of one device
    assert fleet.whole[0] == trace.nodes[0].gpus - 3
    for shape, devices in taken:
        fleet.release(0, shape, devices)
    assert (fleet.devices == before[0]).all()
    assert all((fleet.views[0].free[name] == free).all() for name, free in before[1].items())
    assert fleet.used == 0


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(Options(burst=64), id="in bursts"),
        pytest.param(Options(burst=64, replicas=2), id="in bursts, by two replicas"),
        pytest.param(Options(images=0.1), id="where some nodes have the image"),
        pytest.param(Options(every=False), id="where the scheduler spreads pods without GPUs over GPU nodes"),
    ],
)
@pytest.mark.parametrize("policy", ["ours, first choice", "ours, scheduler"])
def test_ours_refuses_no_more_large_pods_than_the_stock_scheduler(trace: Trace, policy: str, options: Options) -> None:
    whole = trace.whole_gpu()
    assert run(whole, policy, options)[1] <= run(whole, "stock", options)[1]


@pytest.mark.parametrize("replicas", [2, 3])
def test_replicas_that_do_not_see_each_other_hardly_ever_choose_the_same_node(trace: Trace, replicas: int) -> None:
    found = replay(trace.whole_gpu(), POLICIES["ours, scheduler"], 0, Options(burst=64, replicas=replicas, unseen=8))
    assert found.first > 95


@pytest.mark.parametrize(
    ("ours", "begins"),
    [pytest.param(2.0, "9.00 % of the GPUs", id="less"), pytest.param(8.5, "No difference beyond", id="as much")],
)
def test_the_benchmark_says_what_the_webhook_brings(ours: float, begins: str) -> None:
    results = {"stock": {"unallocated": 9.0, "stdev": 0.4}, "ours, scheduler": {"unallocated": ours, "stdev": 0.2}}
    assert verdict(results).startswith(begins)
    assert verdict({"stock": results["stock"]}) == ""


def test_the_benchmark_gives_a_table_json_and_a_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--nodes", str(NODES), "--pods", str(PODS), "--seeds", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "best-fit" in out
    assert "% of the GPUs stay unallocated without the webhook" in out
    results = json.loads((tmp_path / "placement.json").read_text())["policies"]
    assert set(results) == set(POLICIES)
    for found in results.values():
        assert 0 <= found["unallocated"] <= 100
        assert len(found["curve"]) > 50
    assert results["ours, first choice"]["listed"] > 50
    ElementTree.parse(tmp_path / "placement.svg")


def snapshot(folder: Path, *objects: dict[str, Any]) -> Path:
    (file := folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
    return file


def test_a_snapshot_of_a_cluster_is_read_as_a_trace(tmp_path: Path) -> None:
    """What has ended, a slice, a DaemonSet's pod and pods on nodes without GPUs are no part of it."""
    one = node("gpu", labels={"nvidia.com/gpu.product": "L4"})
    one["status"]["allocatable"] |= {"cpu": "32", "memory": "64Gi", "nvidia.com/gpu": "4"}
    wanted = [
        pod("waits", gpus=2, nodeSelector={"nvidia.com/gpu.product": "L4"}),
        pod("beside", gpus=0, nodeName="gpu"),
    ]
    ended, slice_ = pod("ended", gpus=1), pod("slice", gpus=0)
    ended["status"] = {"phase": "Succeeded"}
    slice_["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.10gb": "1"}}
    daemon = pod("daemon", gpus=0, nodeName="gpu", owned_by="DaemonSet")
    found = of_cluster(snapshot(tmp_path, one, node("cpu", gpus=0), *wanted, ended, slice_, daemon, pod("off", gpus=0)))
    assert found.nodes == (Node("gpu", 32000, 64 << 10, 4, "L4"),)
    assert [(shape.gpus, shape.milli, shape.models) for shape in found.pods] == [(2, 1000, ("L4",)), (0, 0, ())]


def test_a_snapshot_without_gpu_pods_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="saw no node with whole GPUs, or no pod"):
        of_cluster(snapshot(tmp_path, node("gpu")))


def test_the_benchmark_replays_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = snapshot(tmp_path, *[node(name) for name in "ab"], *[pod(f"p{n}", gpus=n % 4 + 1) for n in range(8)])
    assert main(["--from", str(file), "--seeds", "1"]) == 0
    out = capsys.readouterr().out
    assert "stock" in out
    assert "% of the GPUs stay unallocated without the webhook" in out
    with pytest.raises(SystemExit):
        main(["--from", str(file), "--pods", str(PODS)])
    assert "wanted --from, or --nodes and --pods" in capsys.readouterr().err
