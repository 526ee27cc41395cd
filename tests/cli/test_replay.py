"""`gpu-admission replay`: the decisions of two policies on recorded requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import admission_review
from tests.cli.objects import OPTED_IN, call, document, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod

RECORDED = Path(__file__).resolve().parents[1] / "data" / "reviews" / "1.37"
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
    return ["--before", tmp_path / "loose.yaml", "--policy", tmp_path / "strict.yaml"]


def found(*arguments: Any) -> Any:
    return document("replay", *arguments)


@pytest.mark.parametrize("recorded", [event, review], ids=["audit log", "AdmissionReviews"])
def test_pods_that_would_be_refused(tmp_path: Path, policies: list[Any], recorded: Any) -> None:
    file = lines(tmp_path, recorded(replica(1)), recorded(replica(2)), recorded(pod("host", hostPID=True)))
    result = call("replay", file, *policies)
    assert result.exit_code == 1
    (head, row) = result.stdout.splitlines()
    assert head.split() == ["CHANGE", "NAMESPACE", "WORKLOAD", "PODS", "WHAT"]
    assert row.startswith('refused   team        pod/host      1   pod "host": spec.hostPID: saw true, wanted false')
    assert result.stderr == "3 pods: 1 refused, 2 same\n"


def test_the_document(tmp_path: Path, policies: list[Any]) -> None:
    (same,) = found(lines(tmp_path, *[event(replica(1))] * 5), *policies)
    assert same == {
        "namespace": "team",
        "of": "job/train",
        "change": "same",
        "text": "",
        "fields": [],
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
    result = call("replay", file, policies[0], policies[3], policies[2], policies[1])
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].startswith("allowed   team        pod/host      1   was refused: ")


def test_a_pod_that_would_be_changed_otherwise_has_the_fields(tmp_path: Path) -> None:
    (tmp_path / "less.yaml").write_text("profiles: {default: {injectors: {tolerations: {enabled: false}}}}")
    (each,) = found(lines(tmp_path, event(replica())), "--policy", tmp_path / "less.yaml")
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
    (each,) = found(lines(tmp_path, event(replica())), "--policy", tmp_path / "l4.yaml", "--cluster", cluster)
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
    assert call("replay", file, *policies).stderr.splitlines() == [
        "left out: pods without the object: the audit policy must log them at level Request (1)",
        "left out: dry runs (1)",
        "left out: requests that create no pod (2)",
        "1 pod: 1 same",
    ]


def test_a_broken_line_hides_no_other_and_is_status_2(tmp_path: Path, policies: list[Any]) -> None:
    file = lines(tmp_path, event(replica(1)), event({"metadata": {}, "spec": []}))
    file.write_text(file.read_text() + "\n{broken\n")
    result = call("replay", file, *policies)
    assert result.exit_code == 2
    first, second, last = result.stderr.splitlines()
    assert first.startswith(f"error: {file}: line 2: ") or "line 3: not JSON" in first
    assert "spec: wanted a map, saw a list" in first + second
    assert last == "1 pod: 1 same"


def test_reviews_of_a_real_api_server_are_read(tmp_path: Path) -> None:
    files = sorted(RECORDED.glob("*-mutate.json")) or sorted(RECORDED.glob("*.json"))
    (tmp_path / "reviews.json").write_text("\n".join(path.read_text() for path in files))
    result = call("replay", tmp_path / "reviews.json", "--policy", "default")
    assert (result.exit_code, result.stderr) == (0, f"{len(files)} pods: {len(files)} same\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["{file}"], "wanted --policy FILE: the policy to try", id="no policy"),
        pytest.param(["/no", "--policy", "default"], "/no: cannot be read", id="no such file"),
        pytest.param(["{file}", "--policy", "/no"], "/no: cannot be read", id="no such policy"),
        pytest.param(["{file}", "--policy", "default"], "no request to create a pod in it", id="nothing in it"),
    ],
)
def test_wrong_input_is_an_error_with_status_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    file = lines(tmp_path, event(replica(1), verb="get"))
    result = call("replay", *[argument.format(file=file) for argument in arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
