"""What `why` and the page say of a workload: where its pods are, how many are decided alike, and what differs."""

import json
from pathlib import Path
from typing import Any

from tests.cli.objects import CLUSTER, call, document, of_job, placed, write
from tests.cli.test_decided import RECORD
from tests.controlplane.objects import pod
from webhook.kube.pod import DECISION

Json = dict[str, Any]


def decided(name: str, on: str | None, first: str = "gpu-a", **record: Any) -> Json:
    made = of_job(placed(pod(name, 1), on))
    ranked = [[first, 8, 0, 1.0], ["gpu-b", 4, 1, 0.5]]
    made["metadata"]["annotations"] = {DECISION: json.dumps({**RECORD, "nodes": ranked, **record})}
    return made


PODS = [
    decided("train-0", "gpu-a"),
    decided("train-1", "gpu-a", free=3),
    decided("train-2", "gpu-b", "gpu-b"),
    decided("train-3", "gpu-b"),
    decided("train-4", "gpu-b", policy="77aa", units={"gpuResources": ["unchanged"]}),
    of_job(placed(pod("train-5", 1), "gpu-a")),
]
ENDED = decided("train-6", "gpu-a") | {"status": {"phase": "Succeeded"}}


def test_how_many_pods_are_alike_and_what_differs(tmp_path: Path) -> None:
    result = call("why", "job/train", "-n", "team", "--from", write(tmp_path, *CLUSTER, *PODS, ENDED))
    text, *groups = result.stdout.split("\nof train-0:\n")[0].splitlines()
    assert text == "7 pods of job/train: on gpu-a (3), gpu-b (3); 1 ended; chosen for them: gpu-a (4), gpu-b (1)"
    (own, *others) = [line.strip() for line in groups]
    assert own == "4 alike: train-0, train-1, train-2, train-6"
    assert others[0] == "1 other: on another node of its ranking: train-3"
    assert others[1].startswith("1 other: policy 77aa; gpuResources: ")
    assert others[1].endswith("; tolerations: nothing: train-4")
    assert others[2] == "1 other: no decision: train-5"
    assert "\nteam/train-0\n" in result.stdout


def test_pods_of_several_owners_are_of_each(tmp_path: Path) -> None:
    """The MPI operator makes the launcher by a Job, and the workers itself."""
    pods = [placed(pod(name, 1, labels={"jobset.sigs.k8s.io/jobset-name": "set"}), "gpu-a") for name in "ab"]
    for each in pods:
        name = each["metadata"]["name"]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"set-{name}", "uid": name, "controller": True}
        each["metadata"]["ownerReferences"] = [owner]
    result = call("why", "jobset/set", "-n", "team", "--from", write(tmp_path, *CLUSTER, *pods))
    assert result.stdout.startswith("2 pods of job/set-a, job/set-b: on gpu-a (2)")


def test_the_document_has_all_pods_also_while_some_wait(tmp_path: Path) -> None:
    waits = decided("train-9", None)
    file = write(tmp_path, *CLUSTER, *PODS[:2], waits)
    (found,) = document("why", "train", "-n", "team", "--from", file)
    assert found["name"] == "train-9", "one that waits is shown"
    workload = found["replicas"]
    assert {key: workload[key] for key in ("pods", "nodes", "chosen", "waiting", "ended")} == {
        "pods": 3,
        "nodes": {"gpu-a": 2},
        "chosen": {"gpu-a": 3},
        "waiting": 1,
        "ended": 0,
    }
    assert [each["pods"] for each in workload["groups"]] == [["train-9"], ["train-0", "train-1"]]
    assert workload["groups"][1]["text"] == "2 other: on the node that was chosen"


def test_all_alike_is_said_and_of_one_pod_nothing(tmp_path: Path) -> None:
    file = write(tmp_path, *CLUSTER, *PODS[:2])
    assert "\n  all are decided alike: train-0, train-1\n" in call("why", "train", "--from", file).stdout
    assert "pods of job/train" not in call("why", "train-0", "--from", file).stdout
    file = write(tmp_path, *CLUSTER, PODS[0])
    assert call("why", "job/train", "--from", file).stdout.startswith("team/train-0\n")
