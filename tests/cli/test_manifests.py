"""The pods that manifests would create."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.objects import deployment, job, pod
from webhook.cli.manifests import Planned, planned
from webhook.cli.offline import load_policy
from webhook.errors import BadInput


def found(folder: Path, *objects: Any, namespace: str | None = "team") -> list[Planned | BadInput]:
    file = folder / "all.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return list(planned([str(file)], load_policy(), namespace))


def test_bare_pods_and_pods_of_workloads(tmp_path: Path) -> None:
    made = found(
        tmp_path,
        pod("one", 1),
        deployment("chat", 3),
        job("train", 2),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}},
    )
    assert [(each.of, each.replicas) for each in made if isinstance(each, Planned)] == [
        ("pod/one", 1),
        ("deployment/chat", 3),
        ("job/train", 2),
    ]
    assert len(made) == 3, "a Service creates no pods"


def test_a_pod_of_a_template_is_as_its_controller_creates_it(tmp_path: Path) -> None:
    (made,) = found(tmp_path, deployment("chat", 1))
    assert isinstance(made, Planned)
    request = made.document.request
    assert (request.kind, request.resource, request.namespace, request.generated) == ("Pod", "pods", "team", "chat-")
    assert request.user == "system:serviceaccount:kube-system:replicaset-controller"
    body = request.object
    assert body is not None
    assert body["spec"]["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": "1"},
        "requests": {"nvidia.com/gpu": "1"},
    }
    assert body["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


def test_a_namespace_in_the_manifest_is_kept(tmp_path: Path) -> None:
    one = pod("one", 1)
    one["metadata"]["namespace"] = "other"
    assert [
        each.document.request.namespace for each in found(tmp_path, one, pod("two", 1)) if isinstance(each, Planned)
    ] == ["other", "team"]


def test_all_manifests_of_a_folder_are_read_and_an_error_stands_in_place_of_a_bad_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Nonsense\n")
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(pod("one", 1)))
    (tmp_path / "notes.txt").write_text("no manifest")
    first, second = planned([str(tmp_path)], load_policy(), None)
    assert isinstance(first, BadInput)
    assert isinstance(second, Planned)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        pytest.param(("containers",), 3, "spec.containers: wanted a list, saw a number", id="containers are a number"),
        pytest.param(("containers", 0, "resources"), "1", "spec.containers[0].resources: wanted a map, saw a string", id="resources are a string"),
        pytest.param(("containers", 0, "resources", "limits"), -1, "spec.containers[0].resources.limits: wanted a map, saw a number", id="limits are a number"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_a_malformed_pod_or_template_is_an_error_in_its_place(
    tmp_path: Path, kind: str, path: tuple[Any, ...], value: Any, said: str
) -> None:
    made = pod("one", 1) if kind == "Pod" else deployment("chat", 2)
    at = made["spec"] if kind == "Pod" else made["spec"]["template"]["spec"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    first, second = found(tmp_path, made, pod("two", 1))
    assert isinstance(first, BadInput)
    assert str(first).endswith(f"document 1: {said}")
    assert isinstance(second, Planned)
