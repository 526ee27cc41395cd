"""`gpu-admission balance`: the nodes of each workload's pods, the GPUs that are left, and what to move.

Covers cli.simulating.moves.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import call, document, of_job, placed, terminal, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.kube.pod import DECISION, PREFERRED

MUCH_CPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "120"}}}


def replica(name: str, on: str, app: str = "chat", **spec: Any) -> dict[str, Any]:
    made = placed(pod(name, 1, **spec), on)
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-5d8", "uid": app, "controller": True}
    made["metadata"] |= {"ownerReferences": [reference], "labels": {"app": app, "pod-template-hash": "5d8"}}
    return made


OBJECTS = [
    *[node(f"gpu-{letter}") for letter in "abc"],
    replica("chat-0", "gpu-a"),
    replica("chat-1", "gpu-a"),
    replica("chat-2", "gpu-a"),
    replica("chat-3", "gpu-b"),
    replica("hungry-0", "gpu-b", "hungry", container=MUCH_CPU),
    placed(pod("plain", 0), "gpu-c"),
]


NOTHING = ["no node can be made whole by moving a few pods of workloads"]


def test_the_document(tmp_path: Path) -> None:
    found = document("balance", "--cluster", write(tmp_path, *OBJECTS))
    assert found == {
        "workloads": [
            {"namespace": "team", "of": "deployment/chat", "pods": 4, "skew": 2, "gpus": {"gpu-a": 3, "gpu-b": 1}},
            {"namespace": "team", "of": "deployment/hungry", "pods": 1, "skew": 0, "gpus": {"gpu-b": 1}},
        ],
        "wholeNodes": 1,
        "whole": ["gpu-c"],
        "cordoned": [],
        "freeGpus": 19,
        "free": {"nvidia.com/gpu": 19},
        "strandedGpus": {"gpu-b": 4},
    }


SICK = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}


def test_the_numbers_are_those_of_healthy_nodes_as_nodes_has_them(tmp_path: Path) -> None:
    hungry = {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "127"}}}
    sick, out = node("sick", labels=SICK), node("out", cordoned=True)
    file = write(tmp_path, node("good"), sick, out, placed(pod("hungry", 1, container=hungry), "out"))
    found = document("balance", "--suggest", "--cluster", file)
    assert (found["whole"], found["freeGpus"], found["free"]) == (["good"], 8, {"nvidia.com/gpu": 8})
    assert found["strandedGpus"] == {}, "those of a cordoned node are none of the free ones"
    assert re.search(r"- +3 +nvidia.com/gpu +24 +1 +0 +8 +15 ", call("nodes", "--cluster", file).stdout)
    assert [each["node"] for each in found["drainable"]] == ["good", "sick"], "nothing keeps anybody from draining it"


def test_a_named_workload_has_the_nodes_it_would_be_re_created_on(tmp_path: Path) -> None:
    found = document("balance", "deployment/chat", "--cluster", write(tmp_path, *OBJECTS))
    again = found["workloads"][0]["recreated"]
    assert sum(again["nodes"].values()) == 4
    assert again["skew"] <= 1
    assert again["waits"] == 0


def test_what_was_decided_before_is_not_kept(tmp_path: Path) -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["gpu-a"]}]
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": {"matchFields": fields}}]}}
    pods = [replica(f"chat-{number}", "gpu-a", affinity=affinity) for number in range(2)]
    for each in pods:
        record = {"units": {"nodeAffinity": ["preferred", 1]}, "nodes": [["gpu-a", 8, 0, 1.0]]}
        each["metadata"]["annotations"] = {DECISION: json.dumps(record)}
    file = write(tmp_path, node("gpu-a"), node("gpu-b"), *pods)
    (found,) = document("balance", "deployment/chat", "--cluster", file)["workloads"]
    assert found["recreated"]["nodes"] == {"gpu-a": 1, "gpu-b": 1}


def test_the_table(tmp_path: Path) -> None:
    result = call("balance", "deployment/chat", "--cluster", write(tmp_path, *OBJECTS))
    assert result.stdout.splitlines() == [
        "NAMESPACE   WORKLOAD          PODS   SKEW   GPUS BY NODE",
        "team        deployment/chat      4      2   gpu-a 3, gpu-b 1",
    ]
    assert result.stderr.startswith("re-created it would be on ")
    assert result.stderr.endswith(
        "1 whole node left; free on healthy nodes: 19 nvidia.com/gpu, 4 of them stranded: gpu-b 4\n"
    )


def test_an_unknown_workload_and_a_namespace_without_gpu_pods_are_named(tmp_path: Path) -> None:
    cluster = write(tmp_path, *OBJECTS)
    result = call("balance", "deployment/chats", "--cluster", cluster)
    assert (result.exit_code, result.stderr) == (
        2,
        'error: no GPU pods of "deployment/chats"; did you mean deployment/chat?\n',
    )
    assert call("balance", "-n", "quiet", "--cluster", cluster).stderr.startswith(
        "no GPU pod of namespace quiet (-A: of all) is on a node\n"
    )


def held(name: str, gpus: int, on: str, **spec: Any) -> dict[str, Any]:
    """By a pod of a Job of its own."""
    return of_job(placed(pod(name, gpus, **spec), on), name)


def static(name: str, gpus: int, on: str) -> dict[str, Any]:
    made = placed(pod(name, gpus), on)
    made["metadata"]["ownerReferences"] = [{"kind": "Node", "name": on, "uid": on, "controller": True}]
    return made


TOLERATES = {"tolerations": [{"key": "team", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        pytest.param(
            [node("a"), node("b"), held("one", 2, "a"), held("two", 5, "b")], ["team/one b"], id="the fewest GPUs go",
        ),
        pytest.param(
            [node("a"), node("b"), node("c"), held("one", 2, "a"), held("two", 2, "b"), held("three", 4, "c")],
            ["team/one c", "team/two c"], id="each counts on those before it",
        ),
        pytest.param(
            [node("a"), node("b"), node("c"), held("one", 2, "a"), held("more", 2, "a"), held("two", 6, "b"), held("three", 6, "c")],
            ["team/more b", "team/one c"], id="two pods to two nodes",
        ),
        pytest.param(
            [node("a"), node("b"), node("c"), held("one", 2, "a"), held("two", 3, "b"), placed(pod("bare", 2), "c")],
            ["team/one b"], id="a node to which a pod has moved is not free any more",
        ),
        pytest.param([node("a"), node("b"), held("one", 2, "a")], ["none", NOTHING[0].replace("no node", "no other node")], id="no other node loses its wholeness"),
        pytest.param([node("a"), node("b"), held("one", 4, "a"), held("two", 5, "b")], NOTHING, id="no room"),
        pytest.param([node("a"), node("b"), placed(pod("bare", 2), "a"), placed(pod("too", 5), "b")], NOTHING, id="nobody makes a bare pod again"),
        pytest.param([node("a"), node("b"), static("fixed", 2, "a"), static("too", 5, "b")], NOTHING, id="a static pod stays"),
        pytest.param(
            [node("a"), node("b", taints=["team=x:NoSchedule"]), held("one", 2, "a"), held("two", 5, "b", **TOLERATES)],
            ["team/two a"], id="not to a taint that the pod does not tolerate",
        ),
        pytest.param(
            [node("a"), node("b", labels=SICK), node("c"), held("one", 2, "a"), held("two", 3, "b"), held("three", 3, "c")],
            ["team/one c", "team/two c"], id="not to an unhealthy node, which the webhook never chooses",
        ),
        pytest.param(
            [node("a", cordoned=True), node("b"), held("one", 2, "a"), held("two", 5, "b")], NOTHING, id="a cordoned node is not freed",
        ),
    ],
)  # fmt: skip
def test_it_says_which_pods_to_move(tmp_path: Path, objects: list[dict[str, Any]], said: list[str]) -> None:
    file = write(tmp_path, *objects)
    lines = call("balance", "--suggest", "--cluster", file).stdout.splitlines()
    found = document("balance", "--suggest", "--cluster", file)
    title = next((line for line in lines if line.startswith("TO DRAIN")), "")
    table = lines[lines.index(title) + 1 :] if title else [line for line in lines if "whole" in line]
    at, to = title.find("POD TO MOVE"), title.find("IT GOES TO")
    shown = [line if "whole" in line else " ".join([line[at:to].strip(), line[to:].strip()]).strip() for line in table]
    assert shown == said
    moves = [f"{move['pod']} {move['to']}" for each in found["suggestions"] for move in each["moves"]]
    assert [each for each in said if each.startswith("team/")] == moves
    for each in [*found["drainable"], *found["suggestions"]]:
        assert any(line.split(None, 1)[0] == each["node"] and each["of"] in line for line in table)


def test_a_static_pod_is_no_workload_of_its_node(tmp_path: Path) -> None:
    (found,) = document("balance", "--cluster", write(tmp_path, node("a"), static("fixed-a", 2, "a")))["workloads"]
    assert found["of"] == "pod/fixed-a"


def test_a_narrow_terminal_shows_what_goes_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, 50)
    printed = call("balance", "--suggest", "--cluster", write(tmp_path, node("a"), node("b"))).stdout
    assert "TO DRAIN   POD TO MOVE   IT GOES TO\n" in printed


def test_nodes_that_are_free_come_first_those_whose_loss_costs_least_before_others(tmp_path: Path) -> None:
    shared = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "4"}
    objects = [node("large", 8), node("shared", 16, "Tesla-T4", labels=shared), node("small", 4), node("out", cordoned=True), node("used"), held("one", 2, "used")]  # fmt: skip
    file = write(tmp_path, *objects)
    found = document("balance", "--suggest", "--cluster", file)
    assert (found["whole"], found["cordoned"]) == (["shared", "small", "large"], ["out"])
    lines = call("balance", "--suggest", "--cluster", file).stdout.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("TO DRAIN "))
    assert [line.split()[0] for line in lines[start + 1 : start + 4]] == ["shared", "small", "large"]
    assert " 16 nvidia.com/gpu, Tesla-T4, shared by several pods " in lines[start + 1]
    assert lines[start + 4] == "cordoned already, and no pod has a GPU there: out"
    assert "no other node can be made whole" in lines[start + 5]
