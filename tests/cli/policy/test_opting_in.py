"""`gpu-admission policy diff` without a policy: what would be done with pods that have no decision.

Covers cli.policy.diff.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, OPTED_IN, call, document, namespace, of_job, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, made, pod
from webhook.kube.pod import DECISION, PROFILE_LABEL


def decided(made: dict[str, Any]) -> dict[str, Any]:
    made["metadata"]["annotations"] = {DECISION: '{"class":"training"}'}
    return made


PODS = [
    *[of_job(placed(pod(f"open-{n}", 1, hostPID=True), "gpu-a"), "open") for n in range(2)],
    decided(placed(pod("seen", 1, hostPID=True), "gpu-a")),
    placed(pod("plain", 0), "gpu-a"),
    placed(pod("done", 1, hostPID=True), "gpu-a", phase="Succeeded"),
]


def audited(folder: Path, *arguments: str, labels: dict[str, str]) -> tuple[int, Any]:
    file = write(folder, *CLUSTER[:4], namespace("team", **labels), *PODS)
    result = call("policy", "diff", *arguments, "--from", file, "-o", "json")
    return result.exit_code, json.loads(result.stdout)["items"]


def test_pods_of_a_workload_are_one_entry_and_pods_with_a_decision_or_without_gpus_are_left_out(tmp_path: Path) -> None:
    status, (found,) = audited(tmp_path, labels={PROFILE_LABEL: "default"})
    assert status == 1
    assert {key: found[key] for key in ("namespace", "workload", "pods", "change")} == {
        "namespace": "team", "workload": "job/open", "pods": 2, "change": "refused",
    }  # fmt: skip
    assert found["findings"][0]["unit"] == "hostNamespaces"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(pod("other", 0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]), id="by a claim"),
        pytest.param(pod("other", 0, container={"resources": {"limits": {"nvidia.com/gpumem": "3000"}}}), id="by HAMi"),
    ],
)  # fmt: skip
def test_gpus_that_come_another_way_are_gpus(tmp_path: Path, made: dict[str, Any]) -> None:
    file = write(tmp_path, *CLUSTER[:4], OPTED_IN, placed(made, "gpu-a"))
    (found,) = document("policy", "diff", "-A", "--from", file)
    assert (found["workload"], found["change"]) == ("pod/other", "changed")
    (told,) = document("why", "other", "-n", "team", "--from", file)
    assert "it asks for no GPU" not in told["decision"]["undecided"]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        pytest.param([], 0, id="a namespace that has not opted in is left out"),
        pytest.param(["-n", "team"], 1, id="with -n it counts as opted in"),
        pytest.param(["-A"], 1, id="with -A all count as opted in"),
        pytest.param(["-n", "team", "-l", "app=open-0"], 1, id="by labels"),
        pytest.param(["-n", "team", "-l", "app=other"], 0, id="by labels that no pod has"),
    ],
)
def test_pods_of_a_namespace_that_has_not_opted_in(tmp_path: Path, arguments: list[str], count: int) -> None:
    _, found = audited(tmp_path, *arguments, labels={})
    assert len(found) == count


@pytest.mark.parametrize("arguments", [[], ["-A"], ["-n", "team"]])
def test_a_namespace_that_a_file_does_not_have_counts_as_opted_in(tmp_path: Path, arguments: list[str]) -> None:
    (found,) = document("policy", "diff", *arguments, "--from", write(tmp_path, *CLUSTER[:4], *PODS))
    assert (found["workload"], found["pods"]) == ("job/open", 2)


def test_workloads_that_make_no_pods_now_are_tried_too(tmp_path: Path) -> None:
    def of(made: dict[str, Any], **spec: Any) -> dict[str, Any]:
        made["metadata"]["namespace"] = "team"
        return {**made, "spec": {**made["spec"], **spec}, "status": {}}

    runs = of_job(placed(pod("runs-0", 1, hostPID=True), "gpu-a"), "runs")
    ended = of(job("ended", 1, 1, hostPID=True)) | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    nightly = made("CronJob", "nightly", spec={"jobTemplate": {"spec": job("n", 2, 1, hostPID=True)["spec"]}})
    objects = [
        *(runs, of(job("runs", 1, 1, hostPID=True)), ended, of(nightly)),
        of(job("held", 3, 1, hostPID=True), suspend=True),
        of(deployment("off", 0, 1, hostPID=True)),
        of(deployment("harmless", 0, 0)),
    ]
    file = write(tmp_path, *CLUSTER[:4], namespace("team"), *objects)
    found = document("policy", "diff", "-n", "team", "--from", file)
    assert {(each["workload"], each["pods"], each["change"]) for each in found} == {
        *(("job/runs", 1, "refused"), ("cronjob/nightly", 2, "refused")),
        *(("job/held", 3, "refused"), ("deployment/off", 1, "refused")),
    }


def test_the_table(tmp_path: Path) -> None:
    file = write(
        tmp_path, *CLUSTER[:4], namespace("team", **{PROFILE_LABEL: ""}), *PODS, placed(pod("fine", 1), "gpu-a")
    )
    result = call("policy", "diff", "--from", file)
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["CHANGE", "NAMESPACE", "WORKLOAD", "PODS", "WHAT"]
    assert lines[1].split()[:4] == ["refused", "team", "job/open", "2"]
    assert lines[2].split()[:4] == ["changed", "team", "pod/fine", "1"]
    assert result.stderr.startswith("3 pods: 2 refused, 1 changed, by the shipped policy")


@pytest.mark.parametrize(
    ("gpus", "more", "starts", "said"),
    [
        pytest.param(8, {}, True, "it waits now, and would start", id="it would get the toleration that it lacks"),
        pytest.param(
            8, {"nodeSelector": {"pool": "x"}}, False, "it waits now, and still would", id="no node is its own"
        ),
        pytest.param(8, {"hostPID": True}, None, "", id="it would be refused"),
    ],
)
def test_whether_a_pod_that_waits_would_start(
    tmp_path: Path, gpus: int, more: dict[str, Any], starts: bool | None, said: str
) -> None:
    made = placed(pod("render", gpus, **more), None)
    file = write(tmp_path, node("a", taints=["nvidia.com/gpu=:NoSchedule"]), namespace("team"), made)
    (found,) = document("policy", "diff", "-n", "team", "--from", file)
    assert found.get("starts") == starts
    printed = " ".join(call("policy", "diff", "-n", "team", "--from", file).stdout.split())
    assert ("it waits now" in printed) == bool(said)
    assert said in printed


def test_without_pods_to_audit_a_message_says_so(tmp_path: Path) -> None:
    result = call("policy", "diff", "--from", write(tmp_path, *CLUSTER[:4]))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("0 pods: nothing to compare, by ")


def test_without_the_right_to_list_namespaces_one_must_be_given(tmp_path: Path) -> None:
    file = write(tmp_path, *CLUSTER)
    content = json.loads(file.read_text())
    content["snapshot"]["missing"] = {"Namespace": "no right to list namespaces"}
    file.write_text(json.dumps(content))
    result = call("policy", "diff", "--from", file)
    assert (result.exit_code, result.stdout) == (2, "")
    said = "error: no right to list namespaces: which have opted in is not known. Ask for it, or give one with -n\n"
    assert result.stderr == said
    assert call("policy", "diff", "-n", "team", "--from", file).exit_code == 0


def test_a_pod_that_is_warned_about_is_changed_too(tmp_path: Path) -> None:
    """The findings do not hide what the webhook would add."""
    asks = placed(pod("asks", 2, labels={"workload-type": "training"}), None)
    file = write(tmp_path, *CLUSTER[:4], namespace("team"), asks)
    line = call("policy", "diff", "-n", "team", "--from", file).stdout.splitlines()[1]
    assert line.endswith("[cpuPerGpu] and 2 more findings; changed: tolerations")
    wide = call("policy", "diff", "-n", "team", "--from", file, "-o", "wide").stdout
    assert "tolerations: it got tolerations of nvidia.com/gpu" in wide
