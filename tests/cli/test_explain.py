"""`gpu-admission explain`: the decision on an existing pod, and on the pods of a file.

Covers cli.elsewhere.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.builders import admission_review
from tests.cli.objects import CLUSTER, OPTED_IN, call, document, namespace, placed, with_metrics, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, pod
from webhook.cli.offline import load_policy
from webhook.kube.pod import DECISION

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


def decided(bound: str | None = "gpu-b", record: Any = RECORD) -> dict[str, Any]:
    made = placed(pod("chat", 1), bound)
    made["metadata"]["annotations"] = {DECISION: record if isinstance(record, str) else json.dumps(record)}
    return made


def test_an_existing_pod(tmp_path: Path) -> None:
    result = call("explain", "chat", "-n", "team", "--cluster", write(tmp_path, *CLUSTER, decided()))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == PRINTED


@pytest.mark.parametrize(
    ("ranked", "nodes", "why"),
    [
        pytest.param(["gpu-b", 4, 0, -3.5], CLUSTER[:4], None, id="an ordinary score"),
        pytest.param(["gpu-a", 8, 0, -1001.2], CLUSTER[:4], "all its GPUs are free, and such nodes are kept for pods that need one", id="a whole node"),
        pytest.param(["gpu-b", 2, 0, -1000.4], CLUSTER[:4], "pods like those that run need just what is free there, or another replica of the webhook fills it (the record does not say which)", id="a node with some GPUs in use"),
        pytest.param(
            ["gpu-s", 8, 0, -1000.0],
            [node("gpu-s", 8, labels={"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"})],
            "pods share its GPUs, and the pod fits elsewhere",
            id="shared GPUs",
        ),
        pytest.param(["gone", 8, 0, -2000.1], CLUSTER[:4], "it is kept for pods that need a whole node, or pods like those that run need just what is free there, or another replica of the webhook fills it (the record does not say which)", id="a node that is not known any more"),
    ],
)  # fmt: skip
def test_a_node_that_comes_last_has_the_reason_beside_it(
    tmp_path: Path, ranked: list[Any], nodes: list[Any], why: str | None
) -> None:
    record = RECORD | {"nodes": [ranked, ["other", 1, 0, -0.7], ranked]}
    cluster = write(tmp_path, *nodes, decided(None, record=record))
    (found, _, _) = document("explain", "chat", "-n", "team", "--cluster", cluster)["nodes"]
    assert (found.get("last"), found["score"]) == (why, round(math.remainder(ranked[3], 1000), 3))
    printed = call("explain", "chat", "-n", "team", "--cluster", cluster).stdout
    for words in ("first, though it would be kept back", "kept back"):
        assert (f"   {words}: {why}\n" in printed) == (why is not None)


def test_a_pod_for_which_no_node_was_chosen_runs_somewhere(tmp_path: Path) -> None:
    record = {"policy": "1f0c", "profile": "default", "class": "training", "why": "no node fits"}
    file = write(tmp_path, *CLUSTER, decided("gpu-b", record))
    assert "  no node chosen: no node fits; bound to gpu-b by the scheduler\n" in call("explain", "chat", "-n", "team", "--cluster", file).stdout  # fmt: skip
    file = write(tmp_path, *CLUSTER, decided(None, record))
    assert "  no node chosen: no node fits\n" in call("explain", "chat", "-n", "team", "--cluster", file).stdout


@pytest.mark.parametrize("changed", [False, True])
def test_a_policy_that_has_changed_since_the_decision_is_told(tmp_path: Path, changed: bool) -> None:
    text = "gpuMetrics: {source: 'off'}\n"
    metadata = {"name": "gpu-admission-policy", "namespace": "gpu-admission"}
    policy = {"kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text}}
    now = load_policy(text).hash
    file = write(tmp_path, *CLUSTER, policy, decided(record=RECORD | ({} if changed else {"policy": now})))
    found = document("explain", "chat", "-n", "team", "--cluster", file)
    assert found.get("policyNow") == (now if changed else None)
    said = call("explain", "chat", "-n", "team", "--cluster", file).stdout
    assert (f", policy 1f0c (changed since: now {now})\n" in said) == changed


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
    found = document("explain", "chat", "-n", "team", "--cluster", cluster)
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
    found = document("explain", "chat", "-n", "team", "--cluster", cluster)["decided"]
    second = nodes[1][0]
    by_name = f"a comes before {second} by its name: they are equal by all criteria"
    assert found == ("" if why is None else f"a comes before {second}: {why}" if why else by_name)


def test_the_only_node_is_called_so_and_not_kept_back(tmp_path: Path) -> None:
    record = {key: value for key, value in RECORD.items() if key != "decided"} | {"nodes": [["gpu-a", 8, 0, -1001.0]]}
    result = call("explain", "chat", "-n", "team", "--cluster", write(tmp_path, *CLUSTER, decided("gpu-a", record)))
    assert "  gpu-a was the only node that could take it\n" in result.stdout
    assert "kept back:" not in result.stdout


def test_numbers_from_metrics_are_shown_with_their_source_and_age(tmp_path: Path) -> None:
    record = RECORD | {
        "nodes": [["gpu-a", 8, 0, 1.0, 7, 12], ["gpu-b", 4, 1, 0.5, 4, None]],
        "by": ["metrics", "dcgm", 9],
    }
    cluster = write(tmp_path, *CLUSTER, decided(record=record))
    said = call("explain", "chat", "-n", "team", "--cluster", cluster).stdout
    assert "  strategy apart, by metrics from dcgm, 9 s old; bound to gpu-b" in said
    assert "7 fit for use, 12 % used\n" in said
    found = document("explain", "chat", "-n", "team", "--cluster", cluster)
    assert found["nodes"][0] == {"name": "gpu-a", "free": 8, "peers": 0, "score": 1.0, "usable": 7, "load": 12}


def test_a_pod_that_waits_has_its_causes(tmp_path: Path) -> None:
    found = call("explain", "waits", "-n", "team", "--cluster", write(tmp_path, *CLUSTER)).stdout
    assert "it has no decision: it is older than the opt-in" in found
    assert "\n! gpusTaken: all GPUs are taken" in found


def test_a_namespace_that_has_not_opted_in_is_named(tmp_path: Path, file: Any) -> None:
    cluster = write(tmp_path, *CLUSTER, namespace())
    for arguments in (("trainer",), ("-f", file(pod("new")))):
        result = call("explain", *arguments, "-n", "team", "--cluster", cluster)
        assert result.exit_code == 0
        assert "the webhook is not asked: namespace team has not opted in" in result.stdout


def test_a_file_of_pods_that_would_be_admitted(tmp_path: Path, file: Any) -> None:
    result = call(
        "explain", "-f", file(deployment("chat", 3)), "-n", "team", "--cluster", write(tmp_path, *CLUSTER, OPTED_IN)
    )
    assert result.exit_code == 0
    assert result.stdout.startswith("team: deployment/chat (3 pods)\n")
    assert "  +  tolerations:\n  +  - key: nvidia.com/gpu\n" in result.stdout
    assert "  nodeAffinity: 2 nodes preferred, the chosen one most\n" in result.stdout
    assert "; gpu-b would be chosen\n" in result.stdout
    assert DECISION not in result.stdout


def test_the_diff_has_only_what_is_changed(tmp_path: Path, file: Any) -> None:
    made = pod("noted", 1)
    made["metadata"] = {"annotations": {"note": "x"}, "name": "noted"}
    (found,) = document("explain", "-f", file(made), "-n", "team", "--cluster", write(tmp_path, *CLUSTER, OPTED_IN))
    assert not [line for line in found["diff"] if "namespace" in line]


def test_a_file_with_several_templates_says_which_is_which(tmp_path: Path, file: Any) -> None:
    jobs = [{"template": {"spec": {"parallelism": 3, "template": pod("one", gpus)}}} for gpus in (1, 2)]
    made = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}, "spec": {"replicatedJobs": jobs}}  # fmt: skip
    given = ["explain", "-f", file(made), "-n", "team", "--cluster", write(tmp_path, *CLUSTER, OPTED_IN)]
    heads = [line for line in call(*given).stdout.splitlines() if not line.startswith(" ")]
    assert heads == [f"team: jobset/train spec.replicatedJobs[{number}] (3 pods)" for number in (0, 1)]
    assert [each["template"] for each in document(*given)] == ["spec.replicatedJobs[0]", "spec.replicatedJobs[1]"]


NOT_TOUCHED = "it asks for no GPU that the policy names, or no injector for it is enabled"
INJECTORS = ("gpuResources", "tolerations", "priorityClass", "voidDevices", "topologySpread", "nodeAffinity")
OFF = {name: {"enabled": False} for name in INJECTORS}


@pytest.mark.parametrize(
    ("policy", "made", "said"),
    [
        pytest.param({}, pod("none", 0), f"nothing is changed: {NOT_TOUCHED}", id="no GPU"),
        pytest.param({"profiles": {"default": {"injectors": OFF}}}, pod("one"), f"nothing is changed: {NOT_TOUCHED}", id="no injector"),
        pytest.param({"profiles": {"default": {"shadow": True}}}, pod("one"), "nothing is changed: profile default is in shadow", id="shadow"),
    ],
)  # fmt: skip
def test_a_file_of_pods_that_are_left_alone_says_so(
    tmp_path: Path, file: Any, policy: Any, made: Any, said: str
) -> None:
    given = ["-f", file(made), "--policy", file(policy, name="policy.yaml"), "-n", "team"]
    result = call("explain", *given, "--cluster", write(tmp_path, *CLUSTER, OPTED_IN))
    assert result.exit_code == 0
    assert result.stdout.endswith(f"\n  {said}\n")


def test_a_workload_whose_pods_cannot_be_created_has_the_cause(tmp_path: Path) -> None:
    held = job("big")
    held["metadata"]["namespace"], held["spec"]["suspend"] = "team", True
    given = ("explain", "big", "-n", "team", "--cluster", write(tmp_path, *CLUSTER, held))
    printed = call(*given).stdout
    assert printed.startswith("team/job/big\n  it has no pod\n  it waits, ! marks what is enough alone:\n  suspended: ")
    assert [cause["cause"] for cause in document(*given)["causes"]] == ["suspended"]


def test_a_file_is_ranked_by_the_gpu_metrics_of_the_snapshot(tmp_path: Path, file: Any) -> None:
    cluster = write(tmp_path, *CLUSTER, OPTED_IN)
    asks = {"gpuMetrics": {"source": "prometheus", "url": "http://prometheus.monitoring:9090"}}
    policy = file(asks, name="policy.yaml")
    given = ["explain", "-f", file(pod("new")), "-n", "team", "--cluster", cluster, "--policy", policy]
    first = document(*given)[0]["nodes"][0]["name"]
    with_metrics(cluster, [[first, str(gpu), "utilisation", 90.0, ""] for gpu in range(8)])
    (explanation,) = document(*given)
    assert explanation["nodes"][0]["name"] != first
    assert "prometheus" in explanation["by"]
    assert document(*given, "--metrics", "off")[0]["nodes"][0]["name"] == first


def test_the_pods_of_make_demo_are_changed_or_refused() -> None:
    sample = Path(__file__).parents[2] / "webhook" / "defaults"
    found = document("explain", "-f", sample / "pods.yaml", "--cluster", sample / "cluster.yaml")
    assert [each["refused"] for each in found] == [False, False, False, True, True, True, False]
    assert all("+  tolerations:" in each["diff"] and each["nodes"] for each in found[:3])


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_a_review_that_creates_no_pod_is_an_error(tmp_path: Path, file: Any, operation: str) -> None:
    review = admission_review(pod("old"), operation=operation)
    said = call("explain", "-f", given := file(review), "--cluster", write(tmp_path, *CLUSTER, OPTED_IN)).stderr
    assert said == f"error: {given}: document 1: saw a review of {operation}, wanted one of the CREATE of a pod\n"


def test_a_refused_pod_of_a_file_has_the_message_of_the_webhook_and_hides_no_other_pod(
    tmp_path: Path, file: Any
) -> None:
    given = file(pod("big", 64), {"kind": "Odd"}, pod("good"))
    cluster = write(tmp_path, *CLUSTER, OPTED_IN)
    result = call("explain", "-f", given, "-n", "team", "--cluster", cluster)
    assert result.exit_code == 2
    validated = call("validate", given, "--cluster", cluster).stderr
    said = next(line for line in result.stdout.splitlines() if "  refused: " in line)
    assert said.removeprefix("  refused: ") in validated
    assert "team: pod/good\n" in result.stdout
    assert "wanted a Pod" in result.stderr
    found = document("explain", "-f", file(pod("big", 64)), "-n", "team", "--cluster", cluster)
    assert found[0]["refused"]
    assert "gpuFits" in [finding["unit"] for finding in found[0]["findings"]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "error: wanted the name of a pod, or -f FILE, and not both\n", id="nothing"),
        pytest.param(["chat", "-f", "x"], "error: wanted the name of a pod, or -f FILE, and not both\n", id="both"),
        pytest.param(["char", "-n", "team"], 'error: no pod "char" in namespace team; did you mean chat?\n', id="a pod that is not there"),
        pytest.param(["-f", "{empty}"], "error: {empty}: no .yaml, .yml or .json in this folder\n", id="an empty folder"),
        pytest.param(["-f", "{service}"], "error: {service}: no pod and no workload in it that makes some (templates.custom of the policy names other kinds)\n", id="no pod in a file"),
        pytest.param(["-f", "/no"], "error: /no: cannot be read: No such file or directory. Give a file, or - for stdin\n", id="no file"),
    ],
)  # fmt: skip
def test_wrong_input_is_an_error_with_status_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    cluster, empty = write(tmp_path, *CLUSTER, decided()), tmp_path / "empty"
    empty.mkdir()
    service = tmp_path / "service.yaml"
    service.write_text('{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}')
    given = [each.format(empty=empty, service=service) for each in arguments]
    result = call("explain", *given, "--cluster", cluster)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", said.format(empty=empty, service=service))
