"""`gpu-admission why`: what is printed, how names are found, and what is said about wrong input.

Covers whatif.answers, whatif.names.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, call, document, of_job, placed, terminal, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.whatif.waiting.waits import held, obj, waiting
from webhook.whatif.waiting.causes import CAUSES

BY_SHIPPED = "fixes were tried by the shipped policy, since there is no ConfigMap gpu-admission-policy\n"
GOLDEN = """\
team/waits
  untoleratedTaint: node gpu-b: tainted nvidia.com/gpu=present:NoSchedule, which the pod does not tolerate
    ! if the pod may run there, add to spec.tolerations: {key: nvidia.com/gpu, operator: Equal, value: "present", effect: NoSchedule}
  gpusTaken: all GPUs are taken: 4 nvidia.com/gpu asked for; free on node gpu-a: 2
    ! ask for 2 in place of 4
    → wait for pod/trainer in team (6 nvidia.com/gpu on gpu-a) to end
    → add a node
  notReady: node gpu-c: not-ready
    → see what is wrong there; the taint goes when it is repaired: kubectl describe node gpu-c
  1 other node is not for this pod: by noGpus (all of it: -o wide)
  it can preempt nobody: no pod has a priority below its own, 0, on node gpu-a
  whether a node will come is not known: no autoscaler has written an Event about it
  scheduler: 0/4 nodes are available: 1 Insufficient nvidia.com/gpu, …
  it has no decision: it is older than the opt-in of its namespace, or the webhook was away when it was made
"""


def test_causes_are_printed_in_order(tmp_path: Path) -> None:
    result = call("why", "waits", "-n", "team", "--from", write(tmp_path, *CLUSTER))
    assert result.stdout.splitlines() == GOLDEN.splitlines()


TABLE = """\
POD                  SINCE   GPUS   WHY                  FIX (! is enough alone)
team/waits                     16   more than any node     ask for 8 nvidia.com/gpu at most, in more pods
team/job/train × 2   6m         8   GPUs taken           ! wait for pod/on-a in team (8 nvidia.com/gpu on a) to end
"""


def test_the_table_has_a_row_for_each_workload_and_reason(tmp_path: Path) -> None:
    created = {"creationTimestamp": "2026-11-18T11:00:00Z"}
    same = [of_job(placed(pod(name, 4), None), **created) for name in ("train-1", "train-2")]
    file = write(tmp_path, node("a"), held(8, "a"), *same, waiting(16))
    result = call("why", "--from", file)
    assert result.stdout == TABLE
    assert "gpu-admission why NAME, or -o wide" in result.stderr


def test_a_narrow_terminal_shows_the_whole_fix_below_each_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, node("a"), held(8, "a"), waiting(16), placed(pod("a-name-of-some-length", 4), None))
    terminal(monkeypatch, 60)
    lines = call("why", "--from", file).stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "POD                          GPUS   WHY",
        "team/a-name-of-some-length      4   GPUs taken",
        "team/waits                     16   more than any node",
    ]
    fixes = " ".join(" ".join([line for line in lines if line.startswith(" ")]).split())
    assert fixes.startswith(
        "! wait for pod/on-a in team (8 nvidia.com/gpu on a) to end ask for 8 nvidia.com/gpu at most, "
    )


def test_causes_of_other_nodes_are_one_line_unless_wide(tmp_path: Path) -> None:
    file = write(tmp_path, node("a"), held(8, "a"), node("b", taints=["x=y:NoSchedule"]), node("c", 0), waiting(8))
    line = "  2 other nodes are not for this pod: 1 by untoleratedTaint (1 of them would take it but for that), 1 by noGpus (all of it: -o wide)"
    assert line in call("why", "waits", "-n", "team", "--from", file).stdout.splitlines()
    wide = call("why", "waits", "-n", "team", "--from", file, "-o", "wide").stdout
    assert "not for this pod" not in wide
    assert "noGpus: node c" in wide


def test_a_node_that_lacks_several_things_is_one_of_the_others(tmp_path: Path) -> None:
    made = waiting(container={"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "4", "memory": "8Gi"}}})
    file = write(tmp_path, node("a"), held(8, "a"), node("b", renamed=True, cpu="1", memory="1Gi"), made)
    (line,) = [each for each in call("why", "waits", "--from", file).stdout.splitlines() if "other node" in each]
    assert line == "  1 other node is not for this pod: by nodesTooSmall (all of it: -o wide)"


@pytest.mark.parametrize("name", ["train-3", "job/train-3", "jobs/train-3", "job.batch/train-3"])
def test_a_workload_stands_for_its_pods_those_that_wait_first(tmp_path: Path, name: str) -> None:
    pods = [of_job(placed(pod(f"train-3-{word}", 8), None), "train-3") for word in ("a", "b")]
    runs = of_job(placed(pod("train-3-0", 1), "gpu-a"), "train-3")
    found = call("why", name, "-n", "team", "--from", write(tmp_path, *CLUSTER, runs, *pods))
    assert (found.exit_code, found.stderr) == (0, BY_SHIPPED)
    assert found.stdout.splitlines()[0] == "3 pods of job/train-3: on gpu-a (1); 2 without a node"
    assert "\nteam/job/train-3 × 2\n" in found.stdout
    assert found.stdout.count("gpusTaken: ") == 1


def owned(made: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": f"of-{name}", "controller": True}]
    return made


@pytest.mark.parametrize("name", ["deploy/chat", "deployment/chat", "chat", "rs/chat-5d8", "chat-5d8-x"])
def test_a_pod_is_found_by_each_workload_above_it(tmp_path: Path, name: str) -> None:
    replicas = owned(
        obj("ReplicaSet", "chat-5d8", {"replicas": 1}, {"replicas": 1}),
        "Deployment",
        "chat",
    )
    waits = owned(placed(pod("chat-5d8-x", 8), None), "ReplicaSet", "chat-5d8")
    (found,) = document("why", name, "-n", "team", "--from", write(tmp_path, *CLUSTER, replicas, waits))
    assert (found["name"], found["causes"][0]["cause"]) == ("chat-5d8-x", "gpusTaken")


@pytest.mark.parametrize("name", ["trainjob/fit", "jobset/big", "big", "job/big-workers-0"])
def test_the_top_of_a_jobset_is_found(tmp_path: Path, name: str) -> None:
    jobset = owned(obj("JobSet", "big", metadata={"uid": "of-big"}), "TrainJob", "fit")
    job = owned(obj("Job", "big-workers-0", {}, {"active": 1}, metadata={"uid": "of-big-workers-0"}), "JobSet", "big")
    waits = owned(placed(pod("big-workers-0-x", 8), None), "Job", "big-workers-0")
    (found,) = document("why", name, "-n", "team", "--from", write(tmp_path, *CLUSTER, jobset, job, waits))
    assert found["name"] == "big-workers-0-x"


def test_a_ray_job_is_found_by_the_cluster_that_it_made(tmp_path: Path) -> None:
    made = owned(obj("RayCluster", "fit-x7k2p", metadata={"uid": "of-fit-x7k2p"}), "RayJob", "fit")
    waits = owned(placed(pod("fit-x7k2p-worker-0", 8), None), "RayCluster", "fit-x7k2p")
    (found,) = document("why", "rayjob/fit", "-n", "team", "--from", write(tmp_path, *CLUSTER, made, waits))
    assert found["name"] == "fit-x7k2p-worker-0"


@pytest.mark.parametrize(
    ("name", "label"),
    [("lws/llama", "leaderworkerset.sigs.k8s.io/name"), ("jobset/llama", "jobset.sigs.k8s.io/jobset-name")],
)
def test_a_label_names_the_top_where_what_is_between_is_not_known(tmp_path: Path, name: str, label: str) -> None:
    waits = owned(placed(pod("llama-0", 8, labels={label: "llama"}), None), "StatefulSet", "llama-between")
    (found,) = document("why", name, "-n", "team", "--from", write(tmp_path, *CLUSTER, waits))
    assert found["name"] == "llama-0"


@pytest.mark.parametrize("name", ["vcjob/fit", "vj/fit", "jobs.batch.volcano.sh/fit"])
def test_a_volcano_job_is_found_by_the_names_that_volcano_gives_its_kind(tmp_path: Path, name: str) -> None:
    waits = owned(placed(pod("fit-worker-0", 8), None), "Job", "fit")
    (found,) = document("why", name, "-n", "team", "--from", write(tmp_path, *CLUSTER, waits))
    assert found["name"] == "fit-worker-0"


def test_a_deployment_whose_pods_are_refused_is_found_by_its_name(tmp_path: Path) -> None:
    """Its ReplicaSet has the reason."""
    failed = {
        "type": "ReplicaFailure",
        "status": "True",
        "message": "exceeded quota: q, requested: a=1, used: a=1, limited: a=1",
    }
    status = {"replicas": 1, "conditions": [failed]}
    lacks = owned(obj("ReplicaSet", "chat-5d8", {"replicas": 3}, status), "Deployment", "chat")
    runs = owned(placed(pod("chat-5d8-x", 1), "gpu-a"), "ReplicaSet", "chat-5d8")
    found = document("why", "deploy/chat", "-n", "team", "--from", write(tmp_path, *CLUSTER, lacks, runs))
    assert [each["name"] for each in found] == ["replicaset/chat-5d8", "chat-5d8-x"]
    assert found[0]["causes"][0]["cause"] == "quotaExceeded"
    assert found[1]["decision"]["state"] == "it does not wait: it is Running on gpu-a"


def test_a_pod_that_is_being_deleted_waits_for_no_node(tmp_path: Path) -> None:
    leaves = of_job(placed(pod("leaves", 1), None), deletionTimestamp="2026-01-01T00:00:00Z")
    given = ["-n", "team", "--from", write(tmp_path, *CLUSTER, leaves, of_job(placed(pod("stays", 8), None)))]
    assert (
        "  it does not wait: it is being deleted: its grace period ended at 2026-01-01T00:00:00Z\n"
        in call("why", "leaves", *given).stdout
    )
    assert [each["name"] for each in document("why", "job/train", *given)] == ["stays"]


def test_a_workload_of_two_namespaces_is_neither(tmp_path: Path) -> None:
    pods = [of_job(placed(pod("train-0", 8), None)) for _ in range(2)]
    pods[1]["metadata"]["namespace"] = "other"
    said = call("why", "job/train", "--from", write(tmp_path, *CLUSTER, *pods)).stderr
    assert said == 'error: "job/train" is in 2 namespaces: other, team. Give one: -n\n'


def test_all_namespaces_win_over_one(tmp_path: Path) -> None:
    assert "team/waits" in call("why", "-A", "-n", "quiet", "--from", write(tmp_path, *CLUSTER)).stdout


def test_of_a_workload_that_lacks_pods_those_that_wait_are_told_too(tmp_path: Path) -> None:
    lacks = obj("Job", "train", {"parallelism": 2}, {"active": 1})
    about = {"kind": "Job", "namespace": "team", "name": "train"}
    event = obj("Event", "e", involvedObject=about, reason="FailedCreate", message="exceeded quota: q, requested: a=1, used: a=1, limited: a=1")  # fmt: skip
    file = write(tmp_path, *CLUSTER, lacks, event, of_job(placed(pod("train-0", 8), None)))
    found = document("why", "job/train", "--from", file)
    assert [(each["name"], each["causes"][0]["cause"]) for each in found] == [
        ("job/train", "quotaExceeded"),
        ("train-0", "gpusTaken"),
    ]


A_NODE = '"gpu-a" is a node. `top nodes gpu-a -o wide` names its pods, `drain gpu-a` says where they could go'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["wait"], 'no pod or workload "wait" in namespace team; did you mean waits?', id="a pod that is not there"),
        pytest.param(["gpu-a"], A_NODE, id="a node"),
        pytest.param(["node/gpu-a"], A_NODE, id="a node, by its kind"),
        pytest.param(["svc/waits"], 'no pod or workload "svc/waits" in namespace team; did you mean pod/waits?', id="a kind that has no pods"),
        pytest.param(["waits", "-n", "other"], 'no pod or workload "waits" in namespace other; namespace team has one', id="another namespace"),
        pytest.param(["-l", "a=b("], '-l: saw "a=b(", wanted labels as a=b, a!=b, a in (b,c), a or !a, with commas between', id="no selector"),
    ],
)  # fmt: skip
def test_wrong_arguments_exit_with_status_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    result = call("why", "-n", "team", *arguments, "--from", write(tmp_path, *CLUSTER))
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: {said}\n")


def test_without_waiting_pods_it_says_so(tmp_path: Path) -> None:
    result = call("why", "-n", "quiet", "--from", write(tmp_path, *CLUSTER))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no pod waits in quiet\n")
    result = call("why", "-A", "-l", "app=none", "--from", write(tmp_path, *CLUSTER))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no pod with app=none waits\n")


def test_every_cause_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "waiting.md").read_text()
    assert [word for word in CAUSES if not re.search(rf"^\| `{word}` \|", page, re.MULTILINE)] == []


REFUSAL = 'admission webhook "validate.gpu-admission.io" denied the request: no'
THERE = 'Failed to create the service team/tune-head, services "tune-head" already exists'


@pytest.mark.parametrize(
    ("events", "made", "word"),
    [
        pytest.param([("FailedCreatePod", 0, REFUSAL)], [], "refused", id="its controller says so"),
        pytest.param([("PodRefused", 0, REFUSAL)], [], "refused", id="this webhook says so"),
        pytest.param([("FailedCreatePod", -120, REFUSAL)], [], "", id="long ago"),
        pytest.param([("SuccessfulCreatePod", 0, REFUSAL)], [], "", id="something else"),
        pytest.param([("FailedCreatePod", 0, REFUSAL)], [-1], "refused", id="a pod of it is older"),
        pytest.param([("FailedCreatePod", 0, REFUSAL)], [1], "", id="its pod was created since"),
        pytest.param([("FailedCreatePod", 0, REFUSAL)], [0], "", id="its pod was created in that second"),
        pytest.param([("FailedToCreateService", 0, "timeout"), ("CreatedService", 1, "Created service team/tune-head")], [-1], "", id="the next attempt succeeded"),
        pytest.param([("SuccessfulCreatePod", -1, "Created pod: tune-0"), ("FailedCreatePod", 0, REFUSAL)], [], "refused", id="only the first was created"),
        pytest.param([("CreatedService", -1, "Created the service team/tune-head"), ("FailedToCreateService", 0, THERE)], [-2], "", id="its controller had not yet seen what it created"),
        pytest.param([("CreatedService", -1, "Created the service team/tune-head-2"), ("FailedToCreateService", 0, THERE)], [-2], "notCreated", id="another object has the name"),
        pytest.param([("CreatedService", -3, "Created the service team/tune-head"), ("FailedCreatePod", -2, REFUSAL), ("FailedToCreateService", 0, THERE)], [], "refused", id="that does not hide a refusal"),
    ],
)  # fmt: skip
def test_refused_pods_of_a_kind_that_others_define_are_told(
    tmp_path: Path, events: list[tuple[str, int, str]], made: list[int], word: str
) -> None:
    """`events`: reason, minute and message of each; `made`: the minutes in which pods were created."""

    def at(minute: int) -> str:
        return (datetime(2026, 11, 18, 11, tzinfo=UTC) + timedelta(minutes=minute)).isoformat()

    about = {"kind": "PyTorchJob", "namespace": "team", "name": "tune"}
    said = [
        obj("Event", f"e{n}", involvedObject=about, reason=reason, message=message, lastTimestamp=at(minute))
        for n, (reason, minute, message) in enumerate(events)
    ]
    pods = [owned(placed(pod("tune-0", 1), "gpu-a"), "PyTorchJob", "tune") for _ in made]
    for each, minute in zip(pods, made, strict=True):
        each["metadata"]["creationTimestamp"] = at(minute)
    found = document("why", "--from", write(tmp_path, *CLUSTER[:4], *said, *pods))
    assert [(each["workload"], each["causes"][0]["cause"]) for each in found] == (
        [("pytorchjob/tune", word)] if word else []
    )


@pytest.mark.parametrize(("uid", "told"), [("new", ["pytorchjob/tune"]), ("old", [])])
def test_what_was_said_of_an_object_that_had_the_name_before_is_not_told(
    tmp_path: Path, uid: str, told: list[str]
) -> None:
    tune = obj("PyTorchJob", "tune", namespace="team", spec={}, status={})
    tune["metadata"]["uid"] = "new"
    about = {"kind": "PyTorchJob", "namespace": "team", "name": "tune", "uid": uid}
    said = obj("Event", "e", involvedObject=about, reason="FailedCreatePod", message=REFUSAL)
    said["lastTimestamp"] = datetime(2026, 11, 18, 11, tzinfo=UTC).isoformat()
    found = document("why", "--from", write(tmp_path, *CLUSTER[:4], tune, said))
    assert [each["workload"] for each in found] == told
