"""`gpu-admission pending`: what is printed, and what is said about wrong input."""

import re
from pathlib import Path

import pytest

from tests.cli.objects import CLUSTER, call, document, of_job, placed, terminal, write
from tests.cli.waiting.waits import held, obj, waiting
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.cli.waiting.causes import CAUSES

GOLDEN = """\
team/waits
! untoleratedTaint: node gpu-b: tainted nvidia.com/gpu=present:NoSchedule, which the pod does not tolerate
    → if the pod may run there, add to spec.tolerations: {key: nvidia.com/gpu, operator: Equal, value: "present", effect: NoSchedule}
! gpusTaken: all GPUs are taken: 4 nvidia.com/gpu asked for; free on node gpu-a: 2 in all, at most 2 on one
    → ask for 2 in place of 4, or wait for pod/trainer in team (6 nvidia.com/gpu on gpu-a) to end, or add a node
! notReady: node gpu-c: not-ready
    → see what is wrong there: kubectl describe node gpu-c; the taint goes when it is repaired
  1 other node is not for this pod: 1 by noGpus (all of it: -o wide)
  it can preempt nobody: no pod has a priority below its own, 0, on node gpu-a
  whether a node will come is not known: no autoscaler has written an Event about it
  scheduler: 0/4 nodes are available: 1 Insufficient nvidia.com/gpu, …
"""


def test_causes_are_printed_in_order(tmp_path: Path) -> None:
    result = call("pending", "waits", "-n", "team", "--cluster", write(tmp_path, *CLUSTER))
    assert result.stdout.splitlines() == GOLDEN.splitlines()


TABLE = """\
POD                  SINCE   GPUS   WHY                  FIX (! is enough alone)
team/waits                     16   more than any node     ask for 8 nvidia.com/gpu at most, in more pods, and wait until so much is free
team/job/train × 2   6m         8   GPUs taken           ! wait for pod/on-a in team (8 nvidia.com/gpu on a) to end
"""


def test_the_table_has_a_row_for_each_workload_and_reason(tmp_path: Path) -> None:
    created = {"creationTimestamp": "2026-11-18T11:00:00Z"}
    same = [of_job(placed(pod(name, 4), None), **created) for name in ("train-1", "train-2")]
    file = write(tmp_path, node("a"), held(8, "a"), *same, waiting(16))
    result = call("pending", "--cluster", file)
    assert result.stdout == TABLE
    assert "gpu-admission pending POD, or -o wide" in result.stderr


def test_a_narrow_terminal_shows_the_pods_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause is in the fix, and `pending POD` says it."""
    file = write(tmp_path, node("a"), held(8, "a"), waiting(16), placed(pod("a-name-of-some-length", 4), None))
    terminal(monkeypatch, 60)
    title, first, second = call("pending", "--cluster", file).stdout.splitlines()
    assert title == "POD                          FIX (! is enough alone)"
    assert first == "team/a-name-of-some-length   ! wait for pod/on-a in team (8…"
    assert second == "team/waits                     ask for 8 nvidia.com/gpu at …"


def test_causes_of_other_nodes_are_one_line_unless_wide(tmp_path: Path) -> None:
    file = write(tmp_path, node("a"), held(8, "a"), node("b", taints=["x=y:NoSchedule"]), node("c", 0), waiting(8))
    line = "  2 other nodes are not for this pod: 1 by untoleratedTaint (1 of them would take it but for that), 1 by noGpus (all of it: -o wide)"
    assert line in call("pending", "waits", "-n", "team", "--cluster", file).stdout.splitlines()
    wide = call("pending", "waits", "-n", "team", "--cluster", file, "-o", "wide").stdout
    assert "not for this pod" not in wide
    assert "noGpus: node c" in wide


def test_a_node_that_lacks_several_things_is_one_of_the_others(tmp_path: Path) -> None:
    made = waiting(container={"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "4", "memory": "8Gi"}}})
    file = write(tmp_path, node("a"), held(8, "a"), node("b", renamed=True, cpu="1", memory="1Gi"), made)
    (line,) = [each for each in call("pending", "waits", "--cluster", file).stdout.splitlines() if "other node" in each]
    assert line.startswith("  1 other node is not for this pod: 1 by nodesTooSmall, 1 by otherGpuResource")


@pytest.mark.parametrize("name", ["train-3", "job/train-3"])
@pytest.mark.parametrize("command", ["pending", "explain"])
def test_a_workload_stands_for_its_pods_that_wait(tmp_path: Path, command: str, name: str) -> None:
    pods = [of_job(placed(pod(f"train-3-{word}", 8), None), "train-3") for word in ("a", "b")]
    runs = of_job(placed(pod("train-3-0", 1), "gpu-a"), "train-3")
    found = call(command, name, "-n", "team", "--cluster", write(tmp_path, *CLUSTER, runs, *pods))
    assert (found.exit_code, found.stderr) == (0, "")
    all_of_it = "3 pods of job/train-3: on gpu-a (1); 2 without a node"
    title = {"pending": "team/job/train-3 × 2", "explain": all_of_it}[command]
    assert found.stdout.splitlines()[0] == title
    assert ("\nteam/train-3-a\n" in found.stdout) == (command == "explain")
    assert found.stdout.count("gpusTaken: ") == 1


def test_a_pod_that_is_being_deleted_waits_for_no_node(tmp_path: Path) -> None:
    leaves = of_job(placed(pod("leaves", 1), None), deletionTimestamp="2026-01-01T00:00:00Z")
    given = ["-n", "team", "--cluster", write(tmp_path, *CLUSTER, leaves, of_job(placed(pod("stays", 8), None)))]
    assert call("pending", "leaves", *given).stderr.endswith("does not wait: it is being deleted\n")
    assert [each["name"] for each in document("pending", "job/train", *given)] == ["stays"]
    assert "causes" not in document("explain", "leaves", *given)


@pytest.mark.parametrize("command", ["pending", "explain"])
def test_a_workload_of_two_namespaces_is_neither(tmp_path: Path, command: str) -> None:
    pods = [of_job(placed(pod("train-0", 8), None)) for _ in range(2)]
    pods[1]["metadata"]["namespace"] = "other"
    said = call(command, "job/train", "--cluster", write(tmp_path, *CLUSTER, *pods)).stderr
    assert said == 'error: "job/train" is in 2 namespaces: other, team. Give one: -n\n'


def test_of_a_workload_that_lacks_pods_those_that_wait_are_told_too(tmp_path: Path) -> None:
    lacks = obj("Job", "train", {"parallelism": 2}, {"active": 1})
    about = {"kind": "Job", "namespace": "team", "name": "train"}
    event = obj("Event", "e", involvedObject=about, reason="FailedCreate", message="exceeded quota: q, requested: a=1, used: a=1, limited: a=1")  # fmt: skip
    file = write(tmp_path, *CLUSTER, lacks, event, of_job(placed(pod("train-0", 8), None)))
    found = document("pending", "job/train", "--cluster", file)
    assert [(each["name"], each["causes"][0]["cause"]) for each in found] == [
        ("job/train", "quotaExceeded"),
        ("train-0", "gpusTaken"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["wait", "-n", "team"], 'error: no pod "wait" in namespace team; did you mean waits?\n', id="a pod that is not there"),
        pytest.param(["trainer", "-n", "team"], 'error: pod "trainer" in namespace team does not wait: it is Running\n', id="one that runs"),
        pytest.param(["-n", "team", "-A"], "error: saw -n and -A, wanted one of them\n", id="a namespace, and all"),
    ],
)  # fmt: skip
def test_wrong_arguments_exit_with_status_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    result = call("pending", *arguments, "--cluster", write(tmp_path, *CLUSTER))
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", said)


def test_without_waiting_pods_it_says_so(tmp_path: Path) -> None:
    result = call("pending", "-n", "quiet", "--cluster", write(tmp_path, *CLUSTER))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no pod waits in quiet\n")
    result = call("pending", "-A", "-l", "app=none", "--cluster", write(tmp_path, *CLUSTER))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no pod with app=none waits\n")


def test_every_cause_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert [word for word in CAUSES if not re.search(rf"^\| `{word}` \|", page, re.MULTILINE)] == []
