"""`gpu-admission top namespaces`, `workloads`, `classes`, `models`: who has the GPUs, whose the idle ones are, since when."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import call, document, of_job, placed, with_metrics, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod

HOLDERS = (
    *(node("a"), node("b", 4, "NVIDIA-L4"), node("cpu", 0)),
    *(of_job(placed(pod("one", 2), "a")), of_job(placed(pod("two", 2), "b"))),
    of_job(placed(pod("three", 1), "b"), namespace="other"),
    placed(pod("chat", 3, labels={"workload-type": "inference"}), "a", startTime="2026-11-18T08:00:00Z"),
    placed(pod("waits", 8), None),
)
"""It is not known since when pods run, but for one."""


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("namespace", [["team", "3", "2", "nvidia.com/gpu", "7"], ["other", "1", "1", "nvidia.com/gpu", "1"]]),
        (
            "workload",
            [
                ["team/job/train", "2", "2", "nvidia.com/gpu", "4"],
                ["team/pod/chat", "1", "1", "3h", "nvidia.com/gpu", "3"],
                ["other/job/train", "1", "1", "nvidia.com/gpu", "1"],
            ],
        ),
        (
            "class",
            [["training", "3", "2", "nvidia.com/gpu", "5"], ["inference", "1", "1", "3h", "nvidia.com/gpu", "3"]],
        ),
    ],
)
def test_who_has_the_gpus(tmp_path: Path, by: str, rows: list[list[str]]) -> None:
    file = write(tmp_path, *HOLDERS)
    what = WHAT[by]
    lines = call("top", what, "--from", file).stdout.splitlines()
    place = ["ON"] if by == "workload" else []
    assert lines[0].split() == [by.upper(), "PODS", "NODES", "SINCE", "RESOURCE", "GPUS", *place]
    assert [line.split()[: len(row)] for line, row in zip(lines[1:], rows, strict=True)] == rows
    documents = document("top", what, "--from", file)
    assert [[each[by], each["pods"], each["nodes"], *each["gpus"].values()] for each in documents] == [
        [name, int(pods), int(nodes), int(gpus)] for name, pods, nodes, *_, gpus in rows
    ]
    started = {each[by]: each["since"] for each in documents if each["since"]}
    assert set(started.values()) <= {"2026-11-18T08:00:00Z"}
    assert [*started] == [row[0] for row in rows if "3h" in row]


WHAT = {"namespace": "namespaces", "workload": "workloads", "class": "classes"}
NOBODYS = "of several on one node (its metrics do not say which pod has which GPU)"


def metered(file: Path, idle: dict[str, int], pods: Mapping[str, list[str]] | None = None) -> Path:
    """GPU metrics for a snapshot: so many GPUs of each node are idle, the others are not. `pods`: by node, of each GPU the pod."""
    samples = [
        [name, str(gpu), "utilisation", 0.0 if gpu < number else 90.0, *more]
        for name, number in idle.items()
        for gpu, more in enumerate([("", pod) for pod in (pods or {}).get(name, ())] or [("",)] * 8)
    ]
    return with_metrics(file, samples, "dcgm")


def replica(name: str, **idle: dict[str, int]) -> dict[str, Any]:
    """What a replica of the webhook counts: idle GPUs of each namespace by how long they have been."""
    samples = [
        ["gpu_admission_idle_gpus", {"namespace": namespace, "idle_for": word}, float(number)]
        for namespace, numbers in idle.items()
        for word, number in numbers.items()
    ]
    metadata = {"name": name, "namespace": "gpu-admission"}
    return {"kind": "ReplicaMetrics", "metadata": metadata, "spec": {}, "status": {"samples": samples}}


def test_whose_the_idle_gpus_are_and_for_how_long(tmp_path: Path) -> None:
    seen = [
        replica("young", team={"window": 4, "1h": 0, "6h": 0, "1d": 0}),
        replica("old", team={"window": 4, "1h": 4, "6h": 2, "1d": 2}, other={"window": 1, "1h": 0}),
    ]
    file = metered(write(tmp_path, *HOLDERS, *seen), {"a": 7, "b": 3})
    result = call("top", "namespaces", "--from", file)
    assert [line.split(maxsplit=6) for line in result.stdout.splitlines()] == [
        ["NAMESPACE", "PODS", "NODES", "SINCE", "RESOURCE", "GPUS", "IDLE NOW   IDLE FOR"],
        ["team", "3", "2", "nvidia.com/gpu", "7", "5", "2 for 1d, 4 for 1h"],
        ["other", "1", "1", "nvidia.com/gpu", "1", "0", "less than 1h"],
    ]
    assert result.stderr == f"at least 1 more idle, {NOBODYS}: b\n"
    documents = document("top", "namespaces", "--from", file)
    assert [each["idle"] for each in documents] == [5, 0]
    assert documents[0]["idleFor"] == {"window": 4, "1h": 4, "6h": 2, "1d": 2}


LABELLED = {"b": ["other/three", "", "team/two", "team/two"]}
"""The pod of each GPU of a node, as labels of metrics say."""


@pytest.mark.parametrize(
    ("by", "idle", "more"),
    [
        ("namespace", {"team": 3, "other": 1}, ""),
        ("workload", {"team/job/train": 0, "team/pod/chat": 1, "other/job/train": 1}, f"at least 2 more idle, {NOBODYS}: a\n"),
        ("class", {"training": 1, "inference": 1}, f"at least 2 more idle, {NOBODYS}: a\n"),
    ],
)  # fmt: skip
def test_an_idle_gpu_is_that_of_the_pod_that_the_labels_of_metrics_name(
    tmp_path: Path, by: str, idle: dict[str, int], more: str
) -> None:
    """Of b's four GPUs two are idle, one of them is free. Of a's eight six are, three of them free."""
    file = metered(write(tmp_path, *HOLDERS), {"a": 6, "b": 2}, LABELLED)
    result = call("top", WHAT[by], "--from", file)
    assert result.stderr.partition("since when")[0] == more
    documents = document("top", WHAT[by], "--from", file)
    assert {each[by]: each["idle"] for each in documents} == idle
    (b,) = document("top", "nodes", "b", "--from", file)
    assert (b["idle"], {pod["name"]: (pod["measured"], pod["idle"]) for pod in b["pods"]}) == (
        1,
        {"two": (2, 0), "three": (1, 1)},
    )


def test_why_nobody_knows_since_when_gpus_are_idle_is_said(tmp_path: Path) -> None:
    file = metered(write(tmp_path, *HOLDERS, kinds=["Node", "Pod"]), {"a": 7})
    wanted = f"as the running webhook counts it: {file} has no metrics of the replicas"
    assert wanted in call("top", "namespaces", "--from", file).stderr
    assert wanted not in call("top", "workloads", "--from", file).stderr


def test_where_nothing_measures_it_is_said_once(tmp_path: Path) -> None:
    file = write(tmp_path, *HOLDERS)
    for by in ([], ["workloads"], ["models"]):
        assert call("top", *by, "--from", file).stderr.count("which GPUs are idle is not known") == 1
        assert call("top", *by, "--from", file, "-o", "json").stderr == ""


def test_the_gpus_of_each_model(tmp_path: Path) -> None:
    file = write(tmp_path, *HOLDERS)
    text = call("top", "models", "--from", file).stdout.replace("all GPUs", "all-GPUs")
    lines = [line.split()[:6] for line in text.splitlines()[:-2]]
    assert lines == [
        ["MODEL", "NODES", "RESOURCE", "TOTAL", "ALLOCATED", "PROMISED"],
        ["NVIDIA-A100-SXM4-80GB", "1", "nvidia.com/gpu", "8", "5", "0"],
        ["NVIDIA-L4", "1", "nvidia.com/gpu", "4", "3", "0"],
        ["all-GPUs", "2", "nvidia.com/gpu", "12", "8", "0"],
    ]
    documents = document("top", "models", "--from", file)
    assert [each["model"] for each in documents] == ["NVIDIA-A100-SXM4-80GB", "NVIDIA-L4", None]


def test_only_the_nodes_of_a_model(tmp_path: Path) -> None:
    file = write(tmp_path, *HOLDERS)
    lines = call("top", "workloads", "--model", "a100", "--from", file).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["WORKLOAD", "team/pod/chat", "team/job/train"]
    wrong = call("top", "--model", "h100", "--from", file)
    assert wrong.exit_code == 2
    assert (
        'saw "h100", wanted a part of the name of a model; nodes have NVIDIA-A100-SXM4-80GB, NVIDIA-L4' in wrong.stderr
    )


def test_nobody_has_gpus(tmp_path: Path) -> None:
    assert call("top", "workloads", "--from", write(tmp_path, node("a"))).stderr == "no pod has GPUs there\n"
