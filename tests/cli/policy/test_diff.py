"""`gpu-admission policy diff -f`: the decisions of two policies on recorded requests and on manifests.

Covers cli.policy.recorded.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import admission_review
from tests.cli.objects import OPTED_IN, call, document, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, pod
from webhook.kube.pod import DECISION

RECORDED = Path(__file__).resolve().parents[2] / "data" / "reviews" / "1.37"
SHARE = {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"nvidia.com/gpu": "1"}}
STRICT = "profiles: {default: {rules: {hostNamespaces: {action: deny}}, placement: {otherwise: pack}}}"
LOOSE = "profiles: {default: {rules: {hostNamespaces: {action: 'off'}}}}"


def replica(number: int = 0, **spec: Any) -> dict[str, Any]:
    made = pod("unused", container={"resources": SHARE}, **spec)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    made["metadata"] = {"generateName": "train-", "labels": {"app": "train"}, "ownerReferences": [owner]}
    if number:
        made["metadata"]["name"] = f"train-{number}"
    return made


def event(made: Any, **more: Any) -> dict[str, Any]:
    """The audit event of a pod's creation at level Request."""
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/team/pods",
        "verb": "create",
        "user": {"username": "system:serviceaccount:kube-system:job-controller", "groups": ["system:authenticated"]},
        "objectRef": {"resource": "pods", "namespace": "team", "apiVersion": "v1"},
        "requestObject": made,
    } | more


def review(made: dict[str, Any], **more: Any) -> dict[str, Any]:
    return admission_review(made, "team", **more)


def lines(folder: Path, *documents: Any) -> Path:
    path = folder / "recorded.json"
    path.write_text("\n".join(map(json.dumps, documents)))
    return path


@pytest.fixture
def policies(tmp_path: Path) -> list[Any]:
    (tmp_path / "strict.yaml").write_text(STRICT)
    (tmp_path / "loose.yaml").write_text(LOOSE)
    return [tmp_path / "strict.yaml", "--before", tmp_path / "loose.yaml"]


def found(*arguments: Any) -> Any:
    return document("policy", "diff", "-f", *arguments)


@pytest.mark.parametrize("recorded", [event, review], ids=["audit log", "AdmissionReviews"])
def test_pods_that_would_be_refused(tmp_path: Path, policies: list[Any], recorded: Any) -> None:
    file = lines(tmp_path, recorded(replica(1)), recorded(replica(2)), recorded(pod("host", hostPID=True)))
    result = call("policy", "diff", "-f", file, *policies)
    assert result.exit_code == 1
    (head, row) = result.stdout.splitlines()
    assert head.split() == ["CHANGE", "NAMESPACE", "WORKLOAD", "PODS", "WHAT"]
    assert row.startswith('refused   team        pod/host      1   pod "host": spec.hostPID: saw true, wanted false')
    assert result.stderr.startswith("3 pods: 1 refused, 2 same, by the policy of ")


def test_the_document(tmp_path: Path, policies: list[Any]) -> None:
    (same,) = found(lines(tmp_path, *[event(replica(1))] * 5), *policies)
    assert same == {
        "namespace": "team",
        "workload": "job/train",
        "change": "same",
        "text": "",
        "fields": [],
        "findings": [],
        "changes": ["tolerations: it got tolerations of nvidia.com/gpu"],
        "before": {"outcome": "changed", "node": "", "findings": []},
        "after": {"outcome": "changed", "node": "", "findings": []},
        "pods": 5,
    }
    (refused,) = found(lines(tmp_path, event(pod("host", hostPID=True))), *policies)
    assert (refused["change"], refused["before"]["outcome"], refused["after"]["findings"]) == (
        "refused",
        "changed",
        ["hostNamespaces"],
    )


def test_with_the_policies_swapped_the_pod_is_allowed_with_status_0(tmp_path: Path, policies: list[Any]) -> None:
    file = lines(tmp_path, event(pod("host", hostPID=True)))
    result = call("policy", "diff", "-f", file, policies[2], "--before", policies[0])
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].startswith("allowed   team        pod/host      1   was refused: ")


def test_a_pod_that_would_be_changed_otherwise_has_the_fields(tmp_path: Path) -> None:
    (tmp_path / "less.yaml").write_text("profiles: {default: {injectors: {tolerations: {enabled: false}}}}")
    (each,) = found(lines(tmp_path, event(replica())), tmp_path / "less.yaml")
    assert (each["change"], each["fields"]) == ("changed", ["spec.tolerations"])


@pytest.mark.parametrize(
    ("injectors", "change", "text", "fields"),
    [
        pytest.param("", "placed", "gpu-a → gpu-b", [], id="only placed"),
        pytest.param("injectors: {tolerations: {enabled: false}}, ", "changed", "spec.tolerations", ["spec.tolerations"], id="changed too: the fields but those of the nodes"),
    ],
)  # fmt: skip
def test_a_pod_that_would_be_placed_otherwise_has_both_nodes(
    tmp_path: Path, injectors: str, change: str, text: str, fields: list[str]
) -> None:
    preferred = "preferences: [{nodes: [{key: nvidia.com/gpu.product, values: [NVIDIA-L4]}]}]"
    (tmp_path / "l4.yaml").write_text(f"profiles: {{default: {{{injectors}placement: {{{preferred}}}}}}}")
    cluster = write(tmp_path, node("gpu-a"), node("gpu-b", 8, "NVIDIA-L4"), OPTED_IN)
    (each,) = found(lines(tmp_path, event(replica())), tmp_path / "l4.yaml", "--from", cluster)
    assert (each["before"]["node"], each["after"]["node"]) == ("gpu-a", "gpu-b")
    assert (each["change"], each["text"], each["fields"]) == (change, text, fields)


def test_the_groups_of_the_user_count(tmp_path: Path, policies: list[Any]) -> None:
    kubelet = {"username": "system:node:a", "groups": ["system:nodes"]}
    (entry,) = found(lines(tmp_path, event(replica(nodeName="a"), user=kubelet)), *policies)
    assert entry["after"]["outcome"] != "refused"


def test_requests_that_create_no_pod_are_left_out_and_counted(tmp_path: Path, policies: list[Any]) -> None:
    file = lines(
        tmp_path,
        event(replica(1)),
        event(replica(1), stage="RequestReceived"),
        event(None),
        event(replica(1), requestURI="/api/v1/namespaces/team/pods?dryRun=All"),
        event(replica(1), verb="get"),
        event(replica(1), objectRef={"resource": "pods", "subresource": "binding", "namespace": "team"}),
    )
    *lines_of, last = call("policy", "diff", "-f", file, *policies).stderr.splitlines()
    assert last.startswith("1 pod: 1 same, by ")
    assert lines_of == [
        "left out: pods without the object: the audit policy must log them at level Request (1)",
        "left out: dry runs (1)",
        "left out: requests that create no pod (2)",
    ]


def test_a_broken_line_hides_no_other_and_is_status_2(tmp_path: Path, policies: list[Any]) -> None:
    file = lines(tmp_path, event(replica(1)), event({"metadata": {}, "spec": []}))
    file.write_text(file.read_text() + "\n{broken\n")
    result = call("policy", "diff", "-f", file, *policies)
    assert result.exit_code == 2
    first, second, last = result.stderr.splitlines()
    assert first.startswith(f"error: {file}: line 2: ") or "line 3: not JSON" in first
    assert "spec: wanted a map, saw a list" in first + second
    assert last.startswith("1 pod: 1 same, by ")


def test_reviews_of_a_real_api_server_are_read(tmp_path: Path) -> None:
    files = sorted(RECORDED.glob("*-mutate.json")) or sorted(RECORDED.glob("*.json"))
    (tmp_path / "reviews.json").write_text("\n".join(path.read_text() for path in files))
    result = call("policy", "diff", "default", "-f", tmp_path / "reviews.json")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"{len(files)} pods: {len(files)} same, by the shipped policy")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ["-f", "{file}"], "wanted the policy to try: gpu-admission policy diff new.yaml -f FILE", id="no policy"
        ),
        pytest.param(["default", "-f", "/no"], "/no: cannot be read", id="no such file"),
        pytest.param(["/no", "-f", "{file}"], "/no: cannot be read", id="no such policy"),
        pytest.param(["default", "-f", "{file}"], "no request to create a pod in it", id="nothing in it"),
    ],
)
def test_wrong_input_is_an_error_with_status_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    file = lines(tmp_path, event(replica(1), verb="get"))
    result = call("policy", "diff", *[argument.format(file=file) for argument in arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_folder_of_manifests(tmp_path: Path, policies: list[Any]) -> None:
    (folder := tmp_path / "apps").mkdir()
    made = deployment("chat", 3, hostPID=True)
    (folder / "a.json").write_text(json.dumps(made))
    (entry,) = found(folder, *policies)
    assert (entry["workload"], entry["pods"], entry["change"]) == ("deployment/chat", 3, "refused")


def test_a_line_that_is_nested_very_deeply_hides_no_other(tmp_path: Path, policies: list[Any]) -> None:
    file = lines(tmp_path, event(replica(1)))
    deep = '{"a":' * 900 + "1" + "}" * 900
    file.write_text(file.read_text() + "\n" + json.dumps(event(replica(2))).replace('"unused"', deep) + "\n")
    result = call("policy", "diff", "-f", file, *policies)
    assert "same, by " in result.stderr


# --- pods of a cluster ------------------------------------------------------------------------------------------------


def test_pods_that_run_are_decided_under_both_policies(tmp_path: Path, policies: list[Any]) -> None:
    runs = placed(pod("host", 1, hostPID=True), "gpu-a")
    runs["metadata"]["annotations"] = {DECISION: '{"class":"training"}'}
    file = write(tmp_path, node("gpu-a"), OPTED_IN, runs, placed(pod("plain", 0), "gpu-a"))
    (refused, *_) = document("policy", "diff", *policies, "--from", file)
    assert (refused["workload"], refused["change"]) == ("pod/host", "refused")
    assert document("policy", "diff", "--from", file) == [], "it has a decision, and no other policy is asked about"
