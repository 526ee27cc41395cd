"""Workloads that serve without a PodDisruptionBudget: said by `doctor`, `policy diff` and `try`, where they are looked at together
with the budgets, and not to who applies one of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, OPTED_IN, call, document, namespace, placed, write
from tests.controlplane.objects import deployment, made, pod
from webhook.kube.pod import DECISION

LABELS = {"app": "chat", "workload-type": "inference"}
SAID = "2 pods of a service without a PodDisruptionBudget"


def replica(number: int, owner: str = "ReplicaSet", of_class: str = "inference", phase: str = "Running") -> Any:
    """One pod of a workload, with a decision on its class."""
    found = placed(pod(f"chat-{number}", labels=LABELS, owned_by=owner), "gpu-a", phase=phase)
    found["metadata"]["annotations"] = {DECISION: json.dumps({"class": of_class})}
    found["metadata"]["ownerReferences"][0]["name"] = "chat"
    return found


def budget(**labels: str) -> Any:
    found = made("PodDisruptionBudget", "keep", spec={"maxUnavailable": 1, "selector": {"matchLabels": labels}})
    found["metadata"]["namespace"] = "team"
    return found


@pytest.mark.parametrize(
    ("objects", "wanted"),
    [
        pytest.param([replica(1), replica(2)], True, id="two replicas"),
        pytest.param([replica(1), replica(2), budget(app="search")], True, id="a budget for others"),
        pytest.param([replica(1), replica(2), budget(app="chat")], False, id="a budget"),
        pytest.param([replica(1)], False, id="one replica, which no budget can keep"),
        pytest.param([replica(1), replica(2, phase="Succeeded")], False, id="one has ended"),
        pytest.param([replica(n, "Job") for n in (1, 2)], False, id="a Job"),
        pytest.param([replica(n, of_class="training") for n in (1, 2)], False, id="another class"),
        pytest.param([replica(n, "StatefulSet") for n in (1, 2)], True, id="a StatefulSet"),
    ],
)
def test_doctor_names_the_workload(tmp_path: Path, objects: list[Any], wanted: bool) -> None:
    checks = document("doctor", "--from", write(tmp_path, *CLUSTER, OPTED_IN, *objects))
    (found,) = [each for each in checks if each["check"] == "budgets"]
    assert (found["state"], "chat in team" in found["text"]) == (("warn", True) if wanted else ("ok", False)), found


@pytest.mark.parametrize("covered", [False, True])
def test_of_files_and_before_opting_in_it_is_a_finding(tmp_path: Path, file: Any, covered: bool) -> None:
    beside = [budget(app="chat")] if covered else []
    manifests = file(deployment("chat", 2, labels=LABELS), *beside)
    known = write(tmp_path, *CLUSTER, OPTED_IN)
    tried = call("try", "-f", manifests, "-n", "team", "--from", known)
    assert (SAID in tried.stdout) is not covered, tried.output
    stored = deployment("chat", 2, labels=LABELS) | {"status": {}}
    stored["metadata"]["namespace"] = "team"
    known = write(tmp_path, *CLUSTER, namespace("team"), stored, *beside)
    (before,) = [
        each for each in document("policy", "diff", "-n", "team", "--from", known) if "chat" in each["workload"]
    ]
    assert any(SAID in each["text"] for each in before["findings"]) is not covered


def test_without_the_budgets_of_the_cluster_nothing_is_said(file: Any) -> None:
    tried = call("try", "--offline", "-n", "team", "-f", file(deployment("chat", 2, labels=LABELS)))
    assert "PodDisruptionBudget" not in tried.stdout


@pytest.mark.parametrize(("strategy", "serves"), [("apart", True), ("spread", True), ("pack", False)])
def test_a_class_of_the_policy_serves_if_its_replicas_are_spread(
    file: Any, tmp_path: Path, strategy: str, serves: bool
) -> None:
    policy = file(
        {
            "classes": [{"class": "chat", "labels": {"app": ["chat"]}}],
            "profiles": {"default": {"placement": {"strategies": {"chat": strategy}}}},
        },
        name="policy.yaml",
    )
    known, manifest = write(tmp_path, *CLUSTER, OPTED_IN), file(deployment("chat", 2, labels={"app": "chat"}))
    tried = call("try", "-f", manifest, "-n", "team", "--from", known, "--policy", policy)
    assert (SAID in tried.stdout) is serves, tried.output
