"""`gpu-admission top`: the table and the document.

Covers whatif.cluster.report.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.objects import CLUSTER, call, document, placed, terminal, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod

TABLE = """\
NODE    POOL        MODEL                   HEALTH     RESOURCE         TOTAL   ALLOCATED   PROMISED   FREE   UNUSABLE   USED
gpu-a   training    NVIDIA-A100-SXM4-80GB   healthy    nvidia.com/gpu       8           6          0      2          0   ██████░░
gpu-b   inference   NVIDIA-L4               healthy    nvidia.com/gpu       4           0          0      4          0   ░░░░░░░░
gpu-c   training    NVIDIA-A100-SXM4-80GB   notReady   nvidia.com/gpu       8           0          0      0          8   ░░░░░░░░

POOL        NODES   RESOURCE         TOTAL   ALLOCATED   PROMISED   FREE   UNUSABLE   USED
inference       1   nvidia.com/gpu       4           0          0      4          0   ░░░░░░░░
training        2   nvidia.com/gpu      16           6          0      2          8   ███░░░░░
all GPUs        3   nvidia.com/gpu      20           6          0      6          8   ██░░░░░░

largest job that could start now: 1 node × 4 GPUs of NVIDIA-L4, with no tolerations but the webhook's
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path, *CLUSTER)


ALONE = ", with no tolerations but the webhook's"


def test_the_table(cluster: Path) -> None:
    result = call("top", "--from", cluster)
    left_out = "unusable: on nodes that take no pods, sick, or not offered\n"
    said = f"{left_out}which GPUs are idle is not known: {cluster} has no GPU metrics\n"
    assert (result.exit_code, result.stderr) == (0, said)
    assert result.stdout == TABLE


def test_pods_that_a_node_rejected_are_counted_with_its_health(tmp_path: Path) -> None:
    rejected = [
        placed(pod(f"r{number}"), "gpu-a", phase="Failed", reason=reason)
        for number, reason in enumerate(["UnexpectedAdmissionError", "OutOfnvidia.com/gpu", "Evicted"])
    ]
    cluster = write(tmp_path, *CLUSTER, *rejected)
    assert "healthy, 2 rejected" in call("top", "nodes", "gpu-a", "--from", cluster).stdout
    (found,) = document("top", "nodes", "gpu-a", "--from", cluster)
    assert (found["rejected"], found["gpus"]["nvidia.com/gpu"]["allocated"]) == (2, 6)


@pytest.mark.parametrize(
    "taint",
    [
        pytest.param("aws-node-termination-handler/spot-itn:NoSchedule", id="it will soon be removed"),
        pytest.param("readiness.k8s.io/driver:NoSchedule", id="it starts"),
        pytest.param("node.kubernetes.io/disk-pressure:NoSchedule", id="something is wrong"),
    ],
)
def test_no_job_could_start_on_a_node_with_a_taint_that_passes(tmp_path: Path, taint: str) -> None:
    file = write(tmp_path, node("a", taints=[taint]))
    (found,) = document("top", "--from", file)
    assert (found["health"], found["ready"], found["gpus"]["nvidia.com/gpu"]["free"]) == ("notReady", False, 0)
    assert "largest job that could start now: none" in call("top", "--from", file).stdout


def test_what_a_pod_waits_for_that_preempts_others_counts_once(tmp_path: Path) -> None:
    """Until its victims have ended they have the GPUs that it is promised."""
    victim, urgent = placed(pod("victim", 6), "a"), placed(pod("urgent", 8, priority=9), None, nominatedNodeName="a")
    (found,) = document("top", "--from", write(tmp_path, node("a"), victim, urgent))
    assert found["gpus"]["nvidia.com/gpu"] == {"total": 8, "allocated": 6, "promised": 2, "free": 0, "unusable": 0}


def test_gpus_that_are_not_allocatable_are_counted_with_the_health(tmp_path: Path) -> None:
    sick = node("a", 7)
    sick["status"]["capacity"] = {**sick["status"]["allocatable"], "nvidia.com/gpu": "8"}
    cluster = write(tmp_path, sick)
    assert "healthy, 1 withdrawn" in call("top", "--from", cluster).stdout
    (found,) = document("top", "--from", cluster)
    assert (found["withdrawn"], found["gpus"]["nvidia.com/gpu"]["unusable"]) == (1, 1)


def test_wide_has_cpu_and_memory_taints_and_pods(tmp_path: Path) -> None:
    busy = placed(pod("p", 2, container={"resources": {"requests": {"cpu": "28", "memory": "256Gi"}}}), "a")
    held = placed(pod("q", 3), "a")
    cluster = write(tmp_path, node("a", taints=["nvidia.com/gpu=present:NoSchedule"]), busy, held)
    (title, row, *_) = call("top", "--from", cluster, "-o", "wide").stdout.splitlines()
    assert title.index("FREE CPU") == row.index("100 of 128")
    assert title.index("FREE MEMORY") == row.index("768Gi of 1Ti")
    assert row.endswith("   nvidia.com/gpu=present:NoSchedule   team/q (3)")


def test_a_pod_is_named_in_the_row_of_the_resource_that_it_has(tmp_path: Path) -> None:
    mixed = node("a")
    for amounts in (mixed["status"]["capacity"], mixed["status"]["allocatable"]):
        amounts["nvidia.com/mig-1g.10gb"] = "7"
    slices = placed(pod("slices", 2, resource="nvidia.com/mig-1g.10gb"), "a")
    cluster = write(tmp_path, mixed, placed(pod("whole", 1), "a"), slices)
    rows = call("top", "--from", cluster, "-o", "wide").stdout.splitlines()[1:3]
    assert [row.split("   ")[-1].strip() for row in rows] == ["team/whole (1)", "team/slices (2)"]


def test_the_document(cluster: Path) -> None:
    found = document("top", "-l", "node-pool in (training)", "--from", cluster)
    assert [each["name"] for each in found] == ["gpu-a", "gpu-c"]
    assert found[0] == {
        "name": "gpu-a",
        "pool": "training",
        "model": "NVIDIA-A100-SXM4-80GB",
        "ready": True,
        "health": "healthy",
        "taints": [],
        "gpus": {"nvidia.com/gpu": {"total": 8, "allocated": 6, "promised": 0, "free": 2, "unusable": 0}},
        "pods": [
            {
                "namespace": "team",
                "name": "trainer",
                "workload": "pod/trainer",
                "class": "development",
                "since": None,
                "gpus": {"nvidia.com/gpu": 6},
            }
        ],
        "host": {"cpu": {"total": "128", "free": "128"}, "memory": {"total": "1Ti", "free": "1Ti"}},
    }
    assert (
        yaml.safe_load(call("top", "-l", "node-pool=training", "--from", cluster, "-o", "yaml").stdout)["items"]
        == found
    )


@pytest.mark.parametrize(("by", "first"), [([], "POOL"), (["models"], "MODEL")])
def test_sums_keep_their_name_on_a_narrow_terminal(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, by: list[str], first: str
) -> None:
    terminal(monkeypatch, 44)
    lines = call("top", *by, "--from", cluster).stdout.splitlines()
    assert [line for line in lines if line.split()[:2] == [first, "NODES"]]
    assert max(map(len, lines)) <= 44


def test_rows_of_one_node_keep_their_resource_on_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch, 80)
    sliced = node("sliced-by-mig-profiles", 2, mig={"1g.10gb": 4, "2g.20gb": 2})
    lines = call("top", "--from", write(tmp_path, sliced)).stdout.splitlines()
    assert lines[0].split() == ["NODE", "HEALTH", "RESOURCE", "TOTAL", "FREE"]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("objects", "line", "steps"),
    [
        pytest.param(
            [node("a"), node("b"), node("c"), placed(pod("p", 4), "c")],
            "2 nodes × 8 GPUs of NVIDIA-A100-SXM4-80GB, or 3 nodes × 4",
            [{"nodes": 2, "gpus": 8}, {"nodes": 3, "gpus": 4}],
            id="each size",
        ),
        pytest.param(
            [node("a", 1, "NVIDIA-L4"), node("b", cordoned=True)],
            "1 node × 1 GPU of NVIDIA-L4",
            [{"nodes": 1, "gpus": 1}],
            id="a cordoned node",
        ),
        pytest.param(
            [node("a", 4, "Tesla-T4", replicas=4), node("b", 2, "NVIDIA-L4")],
            "1 node × 2 GPUs of NVIDIA-L4",
            [{"nodes": 1, "gpus": 2}],
            id="shares are no GPUs",
        ),
        pytest.param(
            [node("a", cpu="3")], "1 node × 3 GPUs of NVIDIA-A100-SXM4-80GB", [{"nodes": 1, "gpus": 3}], id="few CPUs"
        ),
        pytest.param([node("a", cpu="0")], "none, as no healthy node has a free GPU and CPU", None, id="no CPU"),
    ],
)
def test_the_largest_job_that_could_start_now(
    tmp_path: Path, objects: list[dict[str, Any]], line: str, steps: list[dict[str, int]] | None
) -> None:
    cluster = write(tmp_path, *objects)
    for by in ((), ("models",)):
        said = f"\nlargest job that could start now: {line}{'' if steps is None else ALONE}\n"
        assert call("top", *by, "--from", cluster).stdout.endswith(said)
    found = document("top", "models", "--from", cluster)
    first = [each["largest"] for each in found if each["largest"] and each["model"] != "Tesla-T4-SHARED"]
    assert first == ([{"nvidia.com/gpu": steps}] if steps else [])


@pytest.mark.parametrize("some", [["gpu-a"], ["-l", "node-pool=training"], ["--model", "A100"]])
def test_of_some_nodes_the_largest_job_is_one_on_these(tmp_path: Path, some: list[str]) -> None:
    file = write(tmp_path, *CLUSTER, placed(pod("more", 2), "gpu-a"))
    assert "largest job that could start now on these nodes: none" in call("top", "nodes", *some, "--from", file).stdout
    assert "largest job that could start now: 1 node × 4" in call("top", "--from", file).stdout


@pytest.mark.parametrize(
    ("made", "health"),
    [
        pytest.param(node("n"), "healthy", id="healthy"),
        pytest.param(node("n", cordoned=True), "cordoned", id="cordoned"),
        pytest.param(node("n", ready=False), "notReady", id="not ready"),
        pytest.param(node("n", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}), "unhealthy", id="a failed driver"),
        pytest.param(node("n", resources={"nvidia.com/gpu": "0"}), "offersNoGpus", id="a device plugin that offers nothing"),
        pytest.param(node("n", mig={"1g.10gb": 7}), "healthy", id="MIG instances"),
    ],
)  # fmt: skip
def test_health(tmp_path: Path, made: dict[str, object], health: str) -> None:
    found = document("top", "--from", write(tmp_path, made))
    assert [each["health"] for each in found] == [health]


def test_gpus_of_finished_pods_are_free(tmp_path: Path) -> None:
    done = placed(pod("done", 8), "n", phase="Succeeded")
    found = document("top", "--from", write(tmp_path, node("n"), done))
    assert found[0]["gpus"]["nvidia.com/gpu"]["free"] == 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["nodes", "gpu-d"], 'error: no node "gpu-d"; did you mean gpu-c?\n', id="a node that is not there"),
        pytest.param(["-w"], "error: saw -w with --from, wanted one of them: a file does not change\n", id="a file watched"),
    ],
)  # fmt: skip
def test_wrong_input_is_an_error_with_status_2(cluster: Path, arguments: list[str], said: str) -> None:
    result = call("top", *arguments, "--from", cluster)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", said)


def test_a_selector_that_no_node_matches_is_named(cluster: Path) -> None:
    assert call("top", "-l", "node-pool=spot", "--from", cluster).stderr == "no node with node-pool=spot has GPUs\n"


def test_a_cluster_without_gpus_says_so(tmp_path: Path) -> None:
    assert call("top", "--from", write(tmp_path, node("cpu-a", 0))).stderr == "no node has GPUs\n"
