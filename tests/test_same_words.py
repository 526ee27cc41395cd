"""The annotation, the line in the log, the Event, the refusal and `why` say the same of a decision."""

import json
from pathlib import Path

import orjson
import pytest

from tests import deciding
from tests.cli.objects import TAKEN, placed, snapshot
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import Json, pod
from tests.trying import pod_of, tried
from webhook.admission import events, words
from webhook.cli.decided import decision_of
from webhook.cli.trying import document_of
from webhook.kube.pod import DECISION
from webhook.policy.model import Policy
from webhook.telemetry.logs import fields
from webhook.whatif import offline
from webhook.whatif.cluster.snapshot import Snapshot

OPTED_IN = {"kind": "Namespace", "metadata": {"name": "team", "labels": {"gpu-admission.io/profile": "default"}}}
NODES = [
    node("gpu-a", taints=[GPU_TAINT], labels={"pool": "a"}),
    node("gpu-b", 4, "NVIDIA-L4", labels={"pool": "b"}),
    node("gpu-c", 2, "NVIDIA-L4", labels={"pool": "b"}),
]
CLASSES = [
    {"kind": "PriorityClass", "metadata": {"name": f"gpu-{name}"}, "value": 1000}
    for name in ("inference", "service", "training", "development")
]
CONTROLLER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j", "controller": True}
TAKEN_PODS = [
    pytest.param(pod("plain", 1), id="one GPU"),
    pytest.param(pod("large", 8), id="a whole node"),
    pytest.param(pod("serves", 1, labels={"workload-type": "inference"}), id="inference"),
    pytest.param(pod("trains", 2, labels={"workload-type": "batch"}), id="training"),
    pytest.param(pod("pool", 1, nodeSelector={"pool": "b"}), id="a selector"),
    pytest.param(pod("own", 1, priorityClassName="gpu-training"), id="a priority class of its own"),
    pytest.param(pod("pinned", 1, nodeName="gpu-a"), id="a node that it names"),
    pytest.param(pod("gated", 1, schedulingGates=[{"name": "g"}]), id="a gate"),
    pytest.param(pod("zero", 0, container={"resources": {"limits": {"nvidia.com/gpu": "0"}}}), id="no GPU, said wrongly"),
    pytest.param(pod("elsewhere", 1, schedulerName="volcano"), id="another scheduler"),
    pytest.param(pod("nowhere", 1, nodeSelector={"pool": "z"}), id="a label on no node"),
    pytest.param(pod("two", 1, topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]), id="a spread of its own"),
]  # fmt: skip
REFUSED_PODS = [
    pytest.param(pod("big", 64), id="more than any node"),
    pytest.param(pod("host", 1, hostPID=True), id="the processes of the node"),
    pytest.param(pod("both", 1, hostPID=True, hostIPC=True, hostNetwork=True), id="several findings"),
    pytest.param(pod("half", 0, container={"resources": {"limits": {"nvidia.com/gpu": "500m"}}}), id="half a GPU"),
]  # fmt: skip


def made(manifest: Json) -> Json:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": "team", "ownerReferences": [CONTROLLER]}}


def cluster(folder: Path, *pods: Json) -> Snapshot:
    return snapshot(folder, OPTED_IN, *NODES, *CLASSES, *pods)


def decided(of: Snapshot, policy: Policy, manifest: Json, decide: deciding.Decide) -> deciding.Result:
    (document,) = offline.documents(orjson.dumps(made(manifest)).decode(), "pod")
    assert isinstance(document, offline.Document)
    return deciding.run(document, decide, policy, of.state, TAKEN)


def line_of(result: deciding.Result, hook: str) -> Json:
    found: Json = orjson.loads(orjson.dumps(fields(hook, result.document.request, result.decision, 0.0)))
    return found


@pytest.mark.parametrize("manifest", TAKEN_PODS)
def test_of_a_pod_that_is_taken(tmp_path: Path, manifest: Json) -> None:
    policy = offline.load_policy()
    result = decided(cluster(tmp_path), policy, manifest, deciding.decide_mutate)
    record, line = json.loads(result.pod["metadata"]["annotations"][DECISION]), line_of(result, "mutate")
    node_of = record["nodes"][0][0] if record.get("nodes") else None
    stored = placed(result.pod, node_of)
    then = cluster(tmp_path, stored)
    told = decision_of(then, policy, pod_of(then, "team", manifest["metadata"]["name"]))
    for key in ("class", "profile", "policy"):
        assert record[key] == line[key] == told[key], key
    assert told["policy"] == policy.hash
    assert line.get("node") == node_of == (told["nodes"][0]["name"] if told["nodes"] else None)
    assert record.get("why") == line.get("why")
    assert told["why"].startswith(record.get("why") or "")
    assert [(unit["name"], unit["text"]) for unit in told["units"]] == list(words.units(record))
    if node_of:
        assert (told["choice"], told["text"]) == ("first", f"bound to {node_of}, the node that was chosen")


@pytest.mark.parametrize("manifest", REFUSED_PODS)
def test_of_a_pod_that_is_refused(tmp_path: Path, manifest: Json) -> None:
    policy = offline.load_policy()
    result = decided(cluster(tmp_path), policy, manifest, deciding.decide_validate)
    decision, line = result.decision, line_of(result, "validate")
    outcome = tried(snapshot := cluster(tmp_path), policy, [made(manifest)], "team")
    (told,) = document_of(outcome, snapshot)["items"]
    event = events.refused(result.document.request, decision)
    assert event is not None
    assert told["message"] == decision.message
    assert line["findings"] == [[f["unit"], f["action"], f["path"]] for f in told["findings"]]
    assert line["policy"] == policy.hash
    assert f"(policy {policy.hash})" in decision.message
    first = next(each for each in decision.findings if each.action == "deny")
    assert words.finding_line(first.unit, first.finding) in decision.message
    assert event.message.startswith(
        f"its pods are refused: {words.finding_line(first.unit, first.finding)} (policy {policy.hash})"
    )


def test_of_a_pod_that_was_bound_elsewhere(tmp_path: Path) -> None:
    policy = offline.load_policy()
    result = decided(cluster(tmp_path), policy, pod("p", 2), deciding.decide_mutate)
    first, other = [node[0] for node in json.loads(result.pod["metadata"]["annotations"][DECISION])["nodes"]][:2]
    stored = placed(result.pod, other)
    then = cluster(tmp_path, stored, placed(pod("filler", int(_gpus(first))), first))
    event = events.bound_elsewhere(stored, then.state)
    assert event is not None
    assert event.message.startswith(
        f"bound to {other}, number 2 of the ranking, not to {first}: that node was full by then"
    )
    told = decision_of(then, policy, pod_of(then, "team", "p"))
    assert f"not to {first}: why is not known: no Event says it" in told["text"], (
        "the Event has ended, or there was none"
    )
    assert "; now that node is full: the pod asks for 2 nvidia.com/gpu" in told["text"]
    written = {
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "team"},
        "reason": event.reason,
        "message": event.message,
        "involvedObject": {"uid": stored["metadata"]["uid"]},
    }
    now = cluster(tmp_path, stored, written)
    assert decision_of(now, policy, pod_of(now, "team", "p"))["text"] == event.message, "the node has room now"
    forged = cluster(tmp_path, stored, written | {"message": "bound to the moon\x1b[2J"})
    assert "moon" not in decision_of(forged, policy, pod_of(forged, "team", "p"))["text"]


def _gpus(name: str) -> str:
    return str(
        next(each for each in NODES if each["metadata"]["name"] == name)["status"]["allocatable"]["nvidia.com/gpu"]
    )
