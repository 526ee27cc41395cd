"""`gpu-admission drain`: which nodes can be emptied, where their pods go, and what forbids it.

Covers whatif.moves, whatif.disruption.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import call, document, of_job, placed, terminal, write
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import made, pod
from tests.installed import OPTED_IN
from webhook.kube.pod import DECISION

ALL = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
MUCH_CPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "120"}}}


def replica(name: str, on: str, app: str = "chat", **spec: Any) -> dict[str, Any]:
    found = placed(pod(name, 1, **spec), on)
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-5d8", "uid": app, "controller": True}
    found["metadata"] |= {"ownerReferences": [reference], "labels": {"app": app, "pod-template-hash": "5d8"}}
    return found


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
    found = document("drain", "--from", write(tmp_path, *OBJECTS))
    drainable, suggested = found.pop("drainable"), found.pop("suggestions")
    assert ([each["node"] for each in drainable], [each["node"] for each in suggested]) == (["gpu-c"], ["gpu-b"])
    assert found == {
        "apiVersion": "gpu-admission.io/v1",
        "kind": "Drain",
        "wholeNodes": 1,
        "whole": ["gpu-c"],
        "cordoned": [],
        "free": {"nvidia.com/gpu": 19},
        "freeSlices": {},
        "freeShares": {},
        "strandedGpus": {"gpu-b": 4},
    }
    said = call("drain", "--from", write(tmp_path, *OBJECTS)).stderr.splitlines()[0]
    assert said == "1 whole node left; free on healthy nodes: 19 nvidia.com/gpu, 4 of them stranded: gpu-b 4"


def forbidding(_: str, **changes: Any) -> dict[str, Any]:
    found = replica("chat-0", "gpu-a")
    found["metadata"].setdefault("annotations", {}).update(changes)
    return found


BUDGET = {
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "chat", "namespace": "team"},
    "spec": {"selector": {"matchLabels": {"app": "chat"}}},
    "status": {"disruptionsAllowed": 0},
}


@pytest.mark.parametrize(
    ("objects", "to", "why"),
    [
        pytest.param([replica("chat-0", "gpu-a")], "gpu-b", None, id="nothing forbids it"),
        pytest.param([replica("chat-0", "gpu-a"), BUDGET], "", 'PodDisruptionBudget "chat" allows no disruption now', id="a budget"),
        pytest.param([replica("chat-0", "gpu-a"), {**BUDGET, "status": {"disruptionsAllowed": 1}}], "gpu-b", None, id="a budget with room"),
        pytest.param([forbidding("", **{"karpenter.sh/do-not-disrupt": "true"})], "", "its annotation karpenter.sh/do-not-disrupt is true", id="Karpenter"),
        pytest.param([forbidding("", **{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})], "", "its annotation cluster-autoscaler.kubernetes.io/safe-to-evict is false", id="the autoscaler"),
        pytest.param([placed(pod("bare", 1), "gpu-a")], "", "it has no controller: nobody would create it again", id="a bare pod"),
        pytest.param([replica("chat-0", "gpu-a"), placed(pod("full", 8), "gpu-b")], "", "no other node could take it now: all GPUs are taken: 1 nvidia.com/gpu asked for; free on node gpu-b: 0", id="no room"),
    ],
)  # fmt: skip
def test_of_one_node_it_says_where_its_pods_would_go_and_who_forbids_it(
    tmp_path: Path, objects: list[dict[str, Any]], to: str, why: str | None
) -> None:
    file = write(tmp_path, node("gpu-a"), node("gpu-b"), *objects)
    found = document("drain", "gpu-a", "--from", file)
    (move,) = found["moves"]
    assert (move["to"], move.get("why"), found["possible"]) == (to, why, bool(to))
    result = call("drain", "gpu-a", "--from", file)
    assert (result.exit_code, (why or "it can be emptied") in result.stdout) == (0 if to else 1, True)
    suggested = [move["to"] for each in document("drain", "--from", file)["suggestions"] for move in each["moves"]]
    assert suggested == [], "the other node is whole, or nothing may move"


@pytest.mark.parametrize(
    ("labels", "to", "why"),
    [
        pytest.param(OPTED_IN, "gpu-b", None, id="it gets tolerations when it is created again"),
        pytest.param(
            {},
            "",
            f"no other node could take it now: node gpu-b: tainted {GPU_TAINT}, which the pod does not tolerate",
            id="it gets none in a namespace that has not opted in",
        ),
    ],
)
def test_a_pod_that_moves_is_created_again_and_so_changed(
    tmp_path: Path, labels: dict[str, str], to: str, why: str | None
) -> None:
    """It was there before its namespace opted in, or before the nodes had a taint."""
    nodes = [node(name, taints=[GPU_TAINT]) for name in ("gpu-a", "gpu-b")]
    file = write(tmp_path, *nodes, made("Namespace", "team", labels=labels), replica("chat-0", "gpu-a"))
    (move,) = document("drain", "gpu-a", "--from", file)["moves"]
    assert (move["to"], move.get("why")) == (to, why)


def test_a_node_that_the_webhook_never_chooses_is_named(tmp_path: Path) -> None:
    """And of one node alone there is no other."""
    sick = node("gpu-b", labels=SICK)
    for nodes, wanted in (
        ([sick], ": gpu-b is unhealthy, so the webhook never chooses it; the scheduler may"),
        ([], ""),
    ):
        (move,) = document(
            "drain", "gpu-a", "--from", write(tmp_path, node("gpu-a"), *nodes, replica("chat-0", "gpu-a"))
        )["moves"]
        assert (move["to"], move["why"]) == ("", f"no other node could take it now{wanted}")


def test_what_would_be_refused_when_it_is_created_again_does_not_move(tmp_path: Path) -> None:
    objects = [made("Namespace", "team", labels=OPTED_IN), replica("chat-0", "gpu-a", container={"env": [ALL]})]
    (move,) = document("drain", "gpu-a", "--from", write(tmp_path, node("gpu-a"), node("gpu-b"), *objects))["moves"]
    assert (move["to"], "it would be refused: " in move["why"], "[deviceEnv]" in move["why"]) == ("", True, True)


def test_a_pod_that_trains_is_not_suggested(tmp_path: Path) -> None:
    trains = replica("chat-0", "gpu-a")
    trains["metadata"]["annotations"] = {DECISION: '{"class":"training"}'}
    for moved, wanted in ((replica("chat-0", "gpu-a"), 1), (trains, 0)):
        file = write(tmp_path, node("gpu-a"), node("gpu-b"), moved, placed(pod("bare", 2), "gpu-b"))
        assert len(document("drain", "--from", file)["suggestions"]) == wanted


SICK = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}


def test_the_numbers_are_those_of_healthy_nodes_as_nodes_has_them(tmp_path: Path) -> None:
    hungry = {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "127"}}}
    sick, out = node("sick", labels=SICK), node("out", cordoned=True)
    file = write(tmp_path, node("good"), sick, out, placed(pod("hungry", 1, container=hungry), "out"))
    found = document("drain", "--from", file)
    assert (found["whole"], found["free"]) == (["good"], {"nvidia.com/gpu": 8})
    assert found["strandedGpus"] == {}, "those of a cordoned node are none of the free ones"
    assert re.search(r"- +3 +nvidia.com/gpu +24 +1 +0 +8 +15 ", call("top", "--from", file).stdout)
    assert [each["node"] for each in found["drainable"]] == ["good", "sick"], "nothing keeps anybody from draining it"


def test_what_pods_have_of_a_node_is_counted_by_resource(tmp_path: Path) -> None:
    mixed = node("a")
    for amounts in (mixed["status"]["capacity"], mixed["status"]["allocatable"]):
        amounts["nvidia.com/mig-1g.10gb"] = "7"
    slices = {"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "2"}}}
    file = write(tmp_path, mixed, placed(pod("both", container=slices), "a"), held("whole", 3, "a"))
    found = document("drain", "a", "--from", file)["moves"]
    assert [each["gpus"] for each in found] == [
        {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 2},
        {"nvidia.com/gpu": 3},
    ]
    printed = call("drain", "a", "--from", file).stdout
    assert "1 nvidia.com/gpu, 2 nvidia.com/mig-1g.10gb" in printed
    assert "a: pods have 4 nvidia.com/gpu, 2 nvidia.com/mig-1g.10gb; 2 pods cannot go" in printed


def test_shares_that_pods_have_of_a_node_are_called_so(tmp_path: Path) -> None:
    file = write(tmp_path, node("a", 2, replicas=10), held("one", 3, "a"), held("two", 1, "a"))
    title, *rows, end = call("drain", "a", "--from", file).stdout.splitlines()
    assert ["3 shares of nvidia.com/gpu" in rows[0], "1 share of nvidia.com/gpu " in rows[1]] == [True, True], title
    assert end == "a: pods have 4 shares of nvidia.com/gpu; 2 pods cannot go"
    assert document("drain", "a", "--from", file)["one"] == "share"


def test_shares_are_no_gpus(tmp_path: Path) -> None:
    file = write(tmp_path, node("whole", 8), node("shared", 2, replicas=10))
    found = document("drain", "--from", file)
    assert (found["free"], found["freeShares"], found["freeSlices"]) == (
        {"nvidia.com/gpu": 8},
        {"nvidia.com/gpu": 20},
        {},
    )
    said = call("drain", "--from", file).stderr
    assert "free on healthy nodes: 8 nvidia.com/gpu, 20 shares of nvidia.com/gpu, 0 of them stranded" in said


def test_an_unknown_node_is_named(tmp_path: Path) -> None:
    result = call("drain", "gpu-z", "--from", write(tmp_path, *OBJECTS))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith('error: no node "gpu-z"; did you mean gpu-')


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
    lines = call("drain", "--from", file).stdout.splitlines()
    found = document("drain", "--from", file)
    title = next((line for line in lines if line.startswith("TO DRAIN")), "")
    table = lines[lines.index(title) + 1 :] if title else [line for line in lines if "whole" in line]
    at, to = title.find("POD TO MOVE"), title.find("IT GOES TO")
    shown = [line if "whole" in line else " ".join([line[at:to].strip(), line[to:].strip()]).strip() for line in table]
    assert shown == said
    moves = [f"{move['pod']} {move['to']}" for each in found["suggestions"] for move in each["moves"]]
    assert [each for each in said if each.startswith("team/")] == moves
    for each in [*found["drainable"], *found["suggestions"]]:
        assert any(line.split(None, 1)[0] == each["node"] and each["gpus"] in line for line in table)


def test_a_narrow_terminal_shows_what_goes_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, 50)
    printed = call("drain", "--from", write(tmp_path, node("a"), node("b"))).stdout
    assert "TO DRAIN   POD TO MOVE   IT GOES TO\n" in printed


def test_nodes_that_are_free_come_first_those_whose_loss_costs_least_before_others(tmp_path: Path) -> None:
    shared = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "4"}
    objects = [node("large", 8), node("shared", 16, "Tesla-T4", labels=shared), node("small", 4), node("out", cordoned=True), node("used"), held("one", 2, "used")]  # fmt: skip
    file = write(tmp_path, *objects)
    found = document("drain", "--from", file)
    assert (found["whole"], found["cordoned"]) == (["shared", "small", "large"], ["out"])
    lines = call("drain", "--from", file).stdout.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("TO DRAIN "))
    assert [line.split()[0] for line in lines[start + 1 : start + 4]] == ["shared", "small", "large"]
    assert " 16 nvidia.com/gpu, Tesla-T4, shared by several pods " in lines[start + 1]
    assert lines[start + 4] == "cordoned already, and no pod has a GPU there: out"
    assert "no other node can be made whole" in lines[start + 5]
