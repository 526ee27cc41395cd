"""`gpu-admission why NAME`: the decision on an existing pod."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, call, document, namespace, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import job, pod
from webhook.kube.pod import DECISION
from webhook.whatif.offline import load_policy

RECORD = {
    "policy": "1f0c",
    "profile": "default",
    "class": "inference",
    "units": {"gpuResources": ["filled", 1], "tolerations": ["added", ["nvidia.com/gpu"]]},
    "strategy": "apart",
    "nodes": [["gpu-a", 8, 0, 1.0], ["gpu-b", 4, 1, 0.5]],
    "of": 3,
}
PRINTED = """\
team/chat
  it does not wait: it is Running on gpu-b
  class inference, profile default, policy 1f0c
  gpuResources: GPU requests were filled in from limits in 1 place
  tolerations: it got tolerations of nvidia.com/gpu
  strategy apart; bound to gpu-b, number 2 of the ranking, not to gpu-a: why is not known: no Event says it, and no object \
shows what that node was like then; now it could take the pod
  NODE    FREE   PEERS   SCORE
  gpu-a      8       0     1.0
  gpu-b      4       1     0.5   ← bound
  FREE: GPUs of that name that were free before this pod; PEERS: pods of its owner there; SCORE: by the strategy; of nodes that \
are equal by all before it the higher comes first, and what is kept back last
"""


def decision(*arguments: Any) -> Any:
    (found,) = document("why", *arguments)
    return found["decision"]


def decided(bound: str | None = "gpu-b", record: Any = RECORD) -> dict[str, Any]:
    made = placed(pod("chat", 1), bound)
    made["metadata"]["annotations"] = {DECISION: record if isinstance(record, str) else json.dumps(record)}
    return made


def test_an_existing_pod(tmp_path: Path) -> None:
    result = call("why", "chat", "-n", "team", "--from", write(tmp_path, *CLUSTER, decided()))
    assert (result.exit_code, result.stdout) == (0, PRINTED)


@pytest.mark.parametrize(
    ("ranked", "nodes", "why"),
    [
        pytest.param(["gpu-b", 4, 0, -3.5], CLUSTER[:4], None, id="an ordinary score"),
        pytest.param(["gpu-a", 8, 0, -1001.2], CLUSTER[:4], "all its GPUs are free, and such nodes are kept for pods that need one", id="a whole node"),
        pytest.param(["gpu-b", 2, 0, -1000.4], CLUSTER[:4], "pods like those that run need just what is free there, or another replica of the webhook fills it (the record does not say which)", id="a node with some GPUs in use"),
        pytest.param(["gpu-r", 8, 0, -1001.2], [node("gpu-r", 8, resources={"rdma/hca": "1k"})], "all its GPUs are free, and such nodes are kept for pods that need one", id="a whole node with network cards"),
        pytest.param(
            ["gpu-s", 8, 0, -1000.0],
            [node("gpu-s", 8, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"})],
            "it has shares of GPUs, and the pod fits elsewhere",
            id="shared GPUs",
        ),
        pytest.param(["gone", 8, 0, -2000.1], CLUSTER[:4], "it is kept for pods that need a whole node, or pods like those that run need just what is free there, or another replica of the webhook fills it (the record does not say which)", id="a node that is not known any more"),
    ],
)  # fmt: skip
def test_a_node_that_comes_last_has_the_reason_beside_it(
    tmp_path: Path, ranked: list[Any], nodes: list[Any], why: str | None
) -> None:
    record = RECORD | {"nodes": [ranked, ["other", 1, 0, -0.7], ranked]}
    asking = decided(None, record=record)
    asking["spec"]["containers"][0]["resources"]["limits"]["rdma/hca"] = "1"
    cluster = write(tmp_path, *nodes, asking)
    (found, _, _) = decision("chat", "-n", "team", "--from", cluster)["nodes"]
    assert (found.get("last"), found["score"]) == (why, round(math.remainder(ranked[3], 1000), 3))
    printed = call("why", "chat", "-n", "team", "--from", cluster).stdout
    for words in ("first, though it would be kept back", "kept back"):
        assert (f"   {words}: {why}\n" in printed) == (why is not None)


def test_a_pod_for_which_no_node_was_chosen_runs_somewhere(tmp_path: Path) -> None:
    record = {"policy": "1f0c", "profile": "default", "class": "training", "why": "no node fits"}
    file = write(tmp_path, *CLUSTER, decided("gpu-b", record))
    assert "  no node chosen: no node fits; bound to gpu-b by the scheduler\n" in call("why", "chat", "-n", "team", "--from", file).stdout  # fmt: skip
    file = write(tmp_path, *CLUSTER, decided(None, record))
    assert "  no node chosen: no node fits\n" in call("why", "chat", "-n", "team", "--from", file).stdout


@pytest.mark.parametrize(
    ("changed", "head"),
    [
        pytest.param(False, "", id="the same"),
        pytest.param(True, "", id="another"),
        pytest.param(False, "# For gpu-admission 0.0.1.\n", id="as an older webhook counts the hash"),
    ],
)
def test_a_policy_that_has_changed_since_the_decision_is_told(tmp_path: Path, changed: bool, head: str) -> None:
    text = f"{head}gpuMetrics: {{source: 'off'}}\n"
    metadata = {"name": "gpu-admission-policy", "namespace": "gpu-admission"}
    policy = {"kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text}}
    now = load_policy(text).hash
    file = write(tmp_path, *CLUSTER, policy, decided(record=RECORD | ({} if changed or head else {"policy": now})))
    found = decision("chat", "-n", "team", "--from", file)
    assert found.get("policyNow") == (now if changed else None)
    said = call("why", "chat", "-n", "team", "--from", file).stdout
    assert (f", policy 1f0c (changed since: now {now})\n" in said) == changed


PINNED = {"nodeAffinity": ["required", "gpu-a"]}


@pytest.mark.parametrize(
    ("bound", "more", "said"),
    [
        pytest.param(None, {"karpenter": "1.5"}, "Karpenter makes a node for this pod from version 1.5 on", id="a preference"),
        pytest.param(None, {"karpenter": "none"}, "no version of Karpenter makes a node for a pod that requires one by name: remove the name from its affinity", id="its own requirement"),
        pytest.param(None, {"karpenter": "none", "units": PINNED}, "no version of Karpenter makes a node for a pod that requires one by name: in the policy remove its scheduler from placement.requiredFor", id="ours"),
        pytest.param("gpu-b", {"karpenter": "1.5"}, None, id="it has a node"),
        pytest.param(None, {}, None, id="no Karpenter"),
        pytest.param(None, {"karpenter": "2\n"}, None, id="what the webhook never writes"),
    ],
)  # fmt: skip
def test_what_karpenter_makes_of_it_is_told_while_it_waits(
    tmp_path: Path, bound: str | None, more: dict[str, Any], said: str | None
) -> None:
    given = ("chat", "-n", "team", "--from", write(tmp_path, *CLUSTER, decided(bound, RECORD | more)))
    assert decision(*given).get("karpenter") == said
    assert (f"\n  {said}\n" in call("why", *given).stdout) == (said is not None)


def times(made: dict[str, Any], status: str = "True", **when: str) -> dict[str, Any]:
    conditions = [{"type": kind, "status": status, "lastTransitionTime": at} for kind, at in when.items()]
    return made | {"status": made["status"] | {"conditions": conditions}}


def tainted(**when: str) -> dict[str, Any]:
    made = node("gpu-a", taints=["odd=1:NoSchedule"])
    made["spec"]["taints"][0] |= when
    return made


EARLY, THEN, LATER = (f"2026-11-20T10:0{minute}:00Z" for minute in (0, 1, 2))
FULL = placed(pod("filler", 8), "gpu-a")
UNKNOWN = "why is not known: no Event says it, and no object shows what that node was like then; now "


@pytest.mark.parametrize(
    ("others", "why"),
    [
        pytest.param([node("gpu-a"), times(FULL, PodScheduled=EARLY)], f"that node was full by then ({THEN}): the pod asks for 1 nvidia.com/gpu, and it had 0 nvidia.com/gpu left", id="it was full"),
        pytest.param([node("gpu-a"), times(FULL, PodScheduled=LATER)], f"{UNKNOWN}that node is full: the pod asks for 1 nvidia.com/gpu, and it had 0 nvidia.com/gpu left", id="it was filled later"),
        pytest.param([node("gpu-a", cordoned=True)], f"{UNKNOWN}that node is cordoned (spec.unschedulable)", id="cordoned, nobody knows since when"),
        pytest.param([tainted(timeAdded=EARLY)], f"that node has a taint that the pod does not tolerate, odd, since {EARLY}", id="a taint before it was bound"),
        pytest.param([times(node("gpu-a"), "False", Ready=EARLY)], f"that node is not ready since {EARLY}", id="not ready before it was bound"),
        pytest.param([times(node("gpu-a"), "False", Ready=LATER)], f"{UNKNOWN}that node is not ready", id="not ready later"),
        pytest.param([tainted()], f"{UNKNOWN}that node has a taint that the pod does not tolerate, odd", id="a taint without a time"),
        pytest.param([node("gpu-a")], f"{UNKNOWN}it could take the pod", id="nothing is against it"),
        pytest.param([], "why is not known: that node is gone", id="gone"),
    ],
)  # fmt: skip
def test_why_a_pod_is_elsewhere_is_read_and_not_guessed(tmp_path: Path, others: list[Any], why: str) -> None:
    made = times(decided("gpu-b"), PodScheduled=THEN)
    cluster = write(tmp_path, node("gpu-b"), made, *others)
    found = decision("chat", "-n", "team", "--from", cluster)
    assert found["text"] == f"bound to gpu-b, number 2 of the ranking, not to gpu-a: {why}"


@pytest.mark.parametrize(
    ("word", "nodes", "why"),
    [
        pytest.param("peers", [["a", 8, 0, -1001.0], ["b", 8, 1, -0.5]], "fewer pods of its owner are there, or in its zone: 0, not 1 (criterion peers; equal by all before it)", id="by a number"),
        pytest.param("score", [["a", 8, 0, -0.5], ["b", 8, 0, -0.75]], "the strategy scores it higher: -0.5, not -0.75 (criterion score; equal by all before it)", id="by score"),
        pytest.param("score", [["a", 8, 0, -0.5], ["gpu-a", 8, 0, -1000.2]], "gpu-a is kept back: all its GPUs are free, and such nodes are kept for pods that need one (criterion score; equal by all before it)", id="by what is kept back"),
        pytest.param("load", [["a", 8, 0, 1.0, 8, 10], ["b", 8, 0, 1.0, 8, 10]], "its GPUs are less busy or cooler (criterion load; equal by all before it)", id="numbers that do not differ are not shown"),
        pytest.param("name", [["a", 8, 0, 1.0], ["b", 8, 0, 1.0]], "", id="by name"),
        pytest.param("newer", [["a", 8, 0, 1.0], ["b", 8, 0, 1.0]], None, id="a criterion of a later version"),
    ],
)  # fmt: skip
def test_why_the_first_node_is_before_the_second(tmp_path: Path, word: str, nodes: list[Any], why: str | None) -> None:
    record = RECORD | {"decided": word, "nodes": nodes}
    cluster = write(tmp_path, *CLUSTER, decided(None, record=record))
    found = decision("chat", "-n", "team", "--from", cluster)["decided"]
    second = nodes[1][0]
    by_name = f"a comes before {second} by its name: they are equal by all criteria"
    assert found == ("" if why is None else f"a comes before {second}: {why}" if why else by_name)


def test_the_only_node_is_called_so_and_not_kept_back(tmp_path: Path) -> None:
    record = {key: value for key, value in RECORD.items() if key != "decided"} | {"nodes": [["gpu-a", 8, 0, -1001.0]]}
    result = call("why", "chat", "-n", "team", "--from", write(tmp_path, *CLUSTER, decided("gpu-a", record)))
    assert "  gpu-a was the only node that could take it\n" in result.stdout
    assert "kept back:" not in result.stdout


def test_numbers_from_metrics_are_shown_with_their_source_and_age(tmp_path: Path) -> None:
    record = RECORD | {
        "nodes": [["gpu-a", 8, 0, 1.0, 7, 12], ["gpu-b", 4, 1, 0.5, 4, None]],
        "by": ["metrics", "dcgm", 9],
    }
    cluster = write(tmp_path, *CLUSTER, decided(record=record))
    said = call("why", "chat", "-n", "team", "--from", cluster).stdout
    assert "  strategy apart, by metrics from dcgm, 9 s old; bound to gpu-b" in said
    assert "7 fit for use, 12 % used\n" in said
    found = decision("chat", "-n", "team", "--from", cluster)
    assert found["nodes"][0] == {"name": "gpu-a", "free": 8, "peers": 0, "score": 1.0, "usable": 7, "load": 12}


def test_a_pod_that_waits_has_its_causes(tmp_path: Path) -> None:
    found = call("why", "waits", "-n", "team", "--from", write(tmp_path, *CLUSTER)).stdout
    assert "it has no decision: it is older than the opt-in" in found
    assert "\n  gpusTaken: all GPUs are taken" in found


def test_a_namespace_that_has_not_opted_in_is_named(tmp_path: Path) -> None:
    result = call("why", "trainer", "-n", "team", "--from", write(tmp_path, *CLUSTER, namespace()))
    assert result.exit_code == 0
    assert "the webhook is not asked: namespace team has not opted in" in result.stdout


def test_a_workload_whose_pods_cannot_be_created_has_the_cause(tmp_path: Path) -> None:
    held = job("big")
    held["metadata"]["namespace"], held["spec"]["suspend"] = "team", True
    given = ("why", "big", "-n", "team", "--from", write(tmp_path, *CLUSTER, held))
    printed = call(*given).stdout
    assert printed.startswith("team/job/big\n  suspended: ")
    assert [cause["cause"] for each in document(*given) for cause in each["causes"]] == ["suspended"]
