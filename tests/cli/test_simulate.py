"""`gpu-admission simulate`: what would fit where, with and without the webhook.

Covers cli.trial.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.objects import call, placed, write
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import deployment, job, pod

NODES = [node("gpu-a", taints=[GPU_TAINT]), node("gpu-b", taints=[GPU_TAINT])]


def manifest(folder: Path, *objects: Any) -> Path:
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return path


def simulated(folder: Path, *objects: Any, more: tuple[str, ...] = (), nodes: Any = NODES) -> tuple[int, Any]:
    result = call("simulate", "-f", manifest(folder, *objects), *more, "--cluster", write(folder, *nodes), "-o", "json")
    return result.exit_code, json.loads(result.stdout)


def test_replicas_are_placed_one_after_another_and_what_is_taken_is_gone(tmp_path: Path) -> None:
    status, found = simulated(tmp_path, deployment("chat", 2, 4), job("train", 2, 8))
    chat, train = found["withWebhook"]["workloads"]
    assert chat["fits"] == 2
    assert sum(chat["nodes"].values()) == 2
    assert train["waits"] == 2 - train["fits"]
    assert status == int(train["waits"] > 0)
    assert train["why"] == ("2 nodes too few free GPUs" if train["waits"] else "")


def test_the_scheduler_alone_gets_the_pods_as_they_were_written(tmp_path: Path) -> None:
    _, found = simulated(tmp_path, deployment("chat", 1, 1))
    assert found["withWebhook"]["workloads"][0]["fits"] == 1
    assert found["withoutWebhook"]["workloads"][0]["fits"] == 0, "nobody tolerates the taint for it"
    _, found = simulated(tmp_path, deployment("chat", 1, 1), nodes=[node("gpu-a")])
    assert found["withoutWebhook"]["workloads"][0]["nodes"] == {"gpu-a": 1}


def test_nodes_are_added(tmp_path: Path) -> None:
    assert simulated(tmp_path, job("train", 4, 8))[0] == 1
    status, found = simulated(tmp_path, job("train", 4, 8), more=("--add-node", "gpu-a=2"))
    assert status == 0
    assert found["withWebhook"]["workloads"][0]["nodes"] == {"gpu-a": 1, "gpu-a-new-1": 1, "gpu-a-new-2": 1, "gpu-b": 1}
    assert found["withWebhook"]["before"] == {"wholeNodes": 4, "freeGpus": 32}
    assert found["withWebhook"]["after"] == {"wholeNodes": 0, "freeGpus": 0}


def test_more_replicas_than_a_server_would_reserve_for(tmp_path: Path) -> None:
    status, found = simulated(tmp_path, deployment("chat", 60, 1), nodes=[node(f"gpu-{n}") for n in range(8)])
    assert (status, found["withWebhook"]["workloads"][0]["fits"]) == (0, 60)
    assert max(found["withWebhook"]["workloads"][0]["nodes"].values()) <= 8


def test_a_refusal_is_told(tmp_path: Path) -> None:
    status, found = simulated(tmp_path, pod("thief", 1, hostPID=True))
    assert status == 1
    assert found["withWebhook"]["workloads"][0]["refused"]
    assert "hostPID" in found["withWebhook"]["workloads"][0]["why"]


def test_the_table(tmp_path: Path) -> None:
    cluster = write(tmp_path, node("gpu-a"), placed(pod("other", 4), "gpu-a"))
    result = call("simulate", "-f", manifest(tmp_path, pod("one", 4)), "-n", "team", "--cluster", cluster)
    assert result.exit_code == 0
    block = [
        "WORKLOAD        FIT          NODES   WHY",
        "team: pod/one   1/1   fits   gpu-a",
        "whole nodes left: 0 of 0; free GPUs: 0 of 4",
    ]
    assert result.stdout.splitlines() == ["with the webhook", *block, "", "the scheduler alone", *block, ""]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["--add-node", "gpu-a"],
            'error: --add-node: saw "gpu-a", wanted NODE=COUNT, as in gpu-a1=2\n',
            id="no count",
        ),
        pytest.param(
            ["--add-node", "gpu-c=1"], 'error: --add-node: no node "gpu-c"; did you mean gpu-b?\n', id="no such node"
        ),
    ],
)
def test_what_is_wrong_is_said_with_status_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    result = call("simulate", "-f", manifest(tmp_path, pod("one")), *arguments, "--cluster", write(tmp_path, *NODES))
    assert result.exit_code == 2
    assert result.stderr == said or "did you mean gpu-" in result.stderr


def test_a_manifest_without_pods(tmp_path: Path) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    result = call("simulate", "-f", manifest(tmp_path, service), "--cluster", write(tmp_path, *NODES))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no pod would be made of it" in result.stderr
