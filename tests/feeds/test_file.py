"""A file in place of a cluster: all formats that kubectl prints, and the errors for other files."""

import math
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.controlplane.nodes import node
from tests.devices import dra
from webhook.errors import BadInput
from webhook.feeds.file import fill, load_cluster
from webhook.state.objects import DEVICE_KINDS
from webhook.state.state import ClusterState

NODE = node("a")
NAMESPACE: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
CLASS: dict[str, Any] = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
BOTH = {"apiVersion": "v1", "kind": "List", "items": [NODE, NAMESPACE, CLASS]}
BARE = {k: v for k, v in NODE.items() if k not in ("kind", "apiVersion")}

FORMS = [
    pytest.param(orjson.dumps(BOTH), id="a List as JSON"),
    pytest.param(yaml.safe_dump(BOTH).encode(), id="a List as YAML"),
    pytest.param(yaml.safe_dump_all([NODE, NAMESPACE, CLASS]).encode(), id="several documents"),
    pytest.param(b"---\n" + yaml.safe_dump_all([NODE, None, BOTH]).encode(), id="documents and Lists and an empty one"),
    pytest.param(
        yaml.safe_dump_all([{"kind": "NodeList", "items": [BARE]}, NAMESPACE, CLASS]).encode(),
        id="a NodeList, whose items have no kind",
    ),
]


@pytest.mark.parametrize("text", FORMS)
def test_every_format_that_kubectl_prints_is_read(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "cluster").write_bytes(text)
    state = ClusterState(max_age=math.inf)
    fill(state, tmp_path / "cluster", 0.0)
    view = state.view(1e9)
    assert view.fresh, "a file never gets old, even for kinds that are not in it"
    assert view.resources() == {"nvidia.com/gpu": 8}
    assert view.namespace_labels("team") == {}
    assert view.priority_classes["high"].value == 5


def test_beside_a_class_of_devices_no_claims_means_that_there_are_none(tmp_path: Path) -> None:
    made = {"Node": BARE, "ResourceSlice": dra.gpus_of("a"), "DeviceClass": dra.device_class(resource="amd.com/gpu")}
    items = [{"kind": kind, **obj} for kind, obj in made.items()]
    (tmp_path / "cluster").write_bytes(orjson.dumps({"kind": "List", "items": items}))
    state = ClusterState(max_age=math.inf)
    fill(state, tmp_path / "cluster", 0.0)
    assert state.freshness.listed.issuperset(DEVICE_KINDS)


WRONG = [
    pytest.param(None, "cannot be read: No such file or directory. Give what kubectl", id="missing"),
    pytest.param(b"a: [", "neither JSON nor YAML: line 2: did not find", id="neither"),
    pytest.param(b"[" * 100_000, "neither JSON nor YAML", id="deep"),
    pytest.param(b'"text"', 'saw "text", wanted a List of Kubernetes objects', id="text"),
    pytest.param(b"kind: List", 'saw kind "List", wanted', id="a List without items"),
    pytest.param(b"kind: Service", 'object 1: saw kind "Service", wanted Node, Pod, Namespace', id="another kind"),
    pytest.param(b"a: b", 'object 1: saw kind "None"', id="no kind"),
    pytest.param(b"kind: Node", "object 1, Node: metadata.name: saw nothing, wanted the name", id="no name"),
    pytest.param(b"{kind: Node, metadata: {name: ''}}", 'metadata.name: saw "", wanted the name', id="an empty name"),
    pytest.param(
        b"", "there is nothing in it. Give what kubectl get nodes,pods,namespaces -A -o json prints", id="empty"
    ),
    pytest.param(
        b"# nothing\n---\n", "there is nothing in it. Give what kubectl get", id="a comment and an empty document"
    ),
    pytest.param(b"{kind: Node, metadata: {name: [a]}}", "metadata.name: saw ", id="a name that is a list"),
    pytest.param(b"{kind: Pod, metadata: {name: a}, spec: 3}", 'Pod "a": spec: saw "3", wanted a map', id="a spec"),
    pytest.param(
        b"{kind: Node, metadata: {name: a}, status: {allocatable: 7}}", 'nodes: "a": ', id="an error found by the state"
    ),
    pytest.param(
        b"{kind: HorizontalPodAutoscaler, metadata: {name: a, namespace: b}, spec: {maxReplicas: 3}}",
        "horizontalpodautoscalers: \"a\": KeyError: 'scaleTargetRef'. Give it as kubectl prints it",
        id="an autoscaler without a target",
    ),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_file_that_is_no_cluster_is_refused_with_a_reason(tmp_path: Path, text: bytes | None, message: str) -> None:
    path = tmp_path / "cluster"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(BadInput) as caught:
        fill(ClusterState(), path, 0.0)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_required_kinds_that_are_not_in_the_file_are_empty(tmp_path: Path) -> None:
    (tmp_path / "cluster").write_text("kind: List\nitems: []")
    assert load_cluster(tmp_path / "cluster") == {"nodes": [], "pods": [], "priorityclasses": [], "namespaces": []}


def test_optional_kinds_are_read_and_without_objects_they_are_unknown(tmp_path: Path) -> None:
    piece = {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"nodeName": "a", "driver": "gpu.nvidia.com"}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"maxReplicas": 9, "scaleTargetRef": target}
    scaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "h", "namespace": "team"}, "spec": spec}
    for items, known in (([], False), ([piece, scaler], True)):
        (tmp_path / "cluster").write_bytes(orjson.dumps({"kind": "List", "items": [NODE, *items]}))
        state = ClusterState(max_age=math.inf)
        fill(state, tmp_path / "cluster", 0.0)
        assert bool(state.nodes.dra) is known
        assert bool(state.view(0.0).autoscaler_of("team", "Deployment", "web")) is known
