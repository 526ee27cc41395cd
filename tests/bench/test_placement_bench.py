"""The benchmark of placement runs on a trace of our own making, and measures what it says."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.placement import PUBLISHED, gate, main
from bench.replay import POLICIES, Options, replay
from bench.simulator import Fleet
from bench.traces import Shape, Trace, TraceError, arrivals, load

DATA = Path(__file__).parent / "data"
NODES, PODS = DATA / "nodes.csv", DATA / "pods.csv"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return load(NODES, PODS)


def run(trace: Trace, policy: str, options: Options, seeds: int = 2) -> tuple[float, float]:
    """Unallocated percent and refused 8-GPU percent, means."""
    found = [replay(trace, POLICIES[policy], seed, options) for seed in range(seeds)]
    return float(np.mean([r.unallocated for r in found])), float(np.mean([r.refused[8] for r in found]))


def test_pods_arrive_until_they_asked_for_more_than_there_is(trace: Trace) -> None:
    shapes, order = arrivals(trace, np.random.default_rng(0), 1.3)
    asked = sum(shapes[number].amount for number in order)
    assert 1.3 * trace.total <= asked <= 1.3 * trace.total + 8000


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
        pytest.param(Options(), id="one by one"),
        pytest.param(Options(burst=64), id="in bursts"),
        pytest.param(Options(burst=64, replicas=2), id="in bursts, by two replicas"),
        pytest.param(Options(load=0.9, lifetimes=4), id="with departures"),
        pytest.param(Options(images=0.1), id="where some nodes have the image"),
    ],
)
@pytest.mark.parametrize("policy", ["ours, first choice", "ours, scheduler"])
def test_ours_refuses_no_more_large_pods_than_the_stock_scheduler(trace: Trace, policy: str, options: Options) -> None:
    whole = trace.whole_gpu()
    assert run(whole, policy, options)[1] <= run(whole, "stock", options)[1]


def test_one_by_one_and_with_one_replica_there_is_nothing_that_is_not_seen(trace: Trace) -> None:
    whole, ours = trace.whole_gpu(), POLICIES["ours, scheduler"]
    assert replay(whole, ours, 0, Options(burst=64, unseen=0)) == replay(whole, ours, 0, Options(burst=64, unseen=16))
    assert replay(whole, ours, 0, Options(replicas=2)).first == 100


@pytest.mark.parametrize("replicas", [2, 3])
def test_replicas_that_do_not_see_each_other_hardly_ever_choose_the_same_node(trace: Trace, replicas: int) -> None:
    found = replay(trace.whole_gpu(), POLICIES["ours, scheduler"], 0, Options(burst=64, replicas=replicas, unseen=8))
    assert found.first > 95


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_seeds_give_equal_results(trace: Trace, policy: str) -> None:
    assert replay(trace, POLICIES[policy], 3, Options()) == replay(trace, POLICIES[policy], 3, Options())


def test_the_gate_says_which_policy_disagrees_with_the_published_figure() -> None:
    random, best_fit, fragmentation = PUBLISHED["default"]
    found = {
        "random": {"unallocated": random},
        "best-fit": {"unallocated": best_fit + 0.2},
        "FGD": {"unallocated": fragmentation},
    }
    assert gate("default", found) == []
    found["FGD"]["unallocated"] = 9.0
    assert gate("default", found) == ["FGD: saw 9.00 % unallocated, wanted 4.77 ± 0.3 as published"]
    assert gate("another", found) == []


def test_the_benchmark_gives_a_table_json_and_a_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--nodes", str(NODES), "--pods", str(PODS), "--seeds", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "best-fit" in capsys.readouterr().out
    results = json.loads((tmp_path / "placement.json").read_text())["policies"]
    assert set(results) == set(POLICIES)
    for found in results.values():
        assert 0 <= found["unallocated"] <= 100
        assert len(found["curve"]) > 50
    assert results["ours, first choice"]["listed"] > 50
    ElementTree.parse(tmp_path / "placement.svg")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("cpu_milli,memory_mib,num_gpu\n", "saw no column gpu_milli", id="a column is missing"),
        pytest.param(
            "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,2,500\n", "saw gpu_milli 500 with num_gpu 2", id="half of two"
        ),
        pytest.param("cpu_milli,memory_mib,num_gpu,gpu_milli\n1,x,1,500\n", "saw memory_mib 'x'", id="not a number"),
        pytest.param(
            "cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,0,0\n", "saw no pod that asks for GPUs", id="no GPU pod"
        ),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused_with_the_reason(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(text)
    with pytest.raises(TraceError, match=said):
        load(NODES, tmp_path / "pods.csv")
    assert main(["--nodes", str(NODES), "--pods", str(tmp_path / "pods.csv")]) == 2


def test_an_unknown_policy_is_refused() -> None:
    assert main(["--nodes", str(NODES), "--pods", str(PODS), "--policies", "magic"]) == 2


def test_a_trace_of_nothing_but_shared_gpus_has_no_part_with_whole_ones(tmp_path: Path) -> None:
    """It would never fill a node, and replay for ever."""
    pods = tmp_path / "pods.csv"
    pods.write_text("cpu_milli,memory_mib,num_gpu,gpu_milli\n1,1,1,500\n1,1,0,0\n")
    assert len(load(NODES, pods).pods) == 2
    with pytest.raises(TraceError, match="saw only pods that share a GPU"):
        load(NODES, pods, whole=True)
    assert main(["--nodes", str(NODES), "--pods", str(pods), "--whole-gpu"]) == 2
