"""Snapshots as files: what is written is read again, and answers by it are the same, also without names.

Covers cli.cluster.anonymous, cli.snapshot, kube.kinds.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, TAKEN, call, document, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod, required
from webhook.cli.cluster.anonymous import anonymous
from webhook.cli.cluster.load import read_snapshot, write_snapshot
from webhook.errors import BadInput
from webhook.kube.pod import DECISION
from webhook.whatif.cluster.snapshot import Snapshot, seconds

SECRET = re.compile(r"trainer|gpu-[abc]\b|team|acme|s3cr3t")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    before = read_snapshot(write(tmp_path, *CLUSTER))
    before.missing["Event"] = "no right to list events"
    (tmp_path / "again.json").write_text("of somebody, and readable by all")
    (tmp_path / "again.json").chmod(0o644)
    write_snapshot(before, tmp_path / "again.json")
    after = read_snapshot(tmp_path / "again.json")
    assert (after.objects, after.missing, after.taken) == (before.objects, before.missing, TAKEN)
    assert (tmp_path / "again.json").stat().st_mode & 0o077 == 0, "for its owner alone"


@pytest.mark.parametrize("part", ["key", "operator"])
def test_an_expression_of_a_selector_that_lacks_a_part_is_an_error_with_the_object(tmp_path: Path, part: str) -> None:
    expression = {name: text for name, text in (("key", "app"), ("operator", "Exists")) if name != part}
    spread = [{"topologyKey": "zone", "maxSkew": 1, "labelSelector": {"matchExpressions": [expression]}}]
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "x", "namespace": "team"}}
    for obj, at in (
        (placed(pod("x", 1, topologySpreadConstraints=spread), None), "topologySpreadConstraints[0].labelSelector"),
        ({**budget, "spec": {"selector": {"matchExpressions": [expression]}}}, "selector"),
    ):
        said = call("top", "--from", file := write(tmp_path, *CLUSTER, obj)).stderr
        assert said.startswith(f'error: {file}: {obj["kind"]} "x": spec.{at}.matchExpressions[0].{part}: wanted ')


def test_a_minus_writes_it_to_stdout(tmp_path: Path) -> None:
    result = call("snapshot", "-", "--from", write(tmp_path, *CLUSTER), "--metrics", "off")
    assert json.loads(result.stdout)["kind"] == "List"
    assert result.stderr.startswith("-: 4 nodes, 2 pods")


def test_an_anonymous_snapshot_has_no_names_and_the_same_answers(tmp_path: Path) -> None:
    labels = {"project": "acme", "nvidia.com/gpu.product": "NVIDIA-L4"}
    env = {"name": "main", "image": "acme/app", "env": [{"name": "KEY", "value": "s3cr3t"}], "command": ["s3cr3t"]}
    owned = placed(pod("trainer", 6, labels={"project": "acme"}, container=env), "gpu-a")
    record = {"class": "training", "nodes": [["gpu-a", 8, 0, 1.0]]}
    owned["metadata"]["annotations"] = {DECISION: json.dumps(record), "note": "s3cr3t"}
    waits = placed(pod("waits", 4, nodeSelector={"project": "acme"}), None)
    file = write(tmp_path, node("gpu-a", labels=labels), *CLUSTER[1:4], owned, waits)
    done = call("snapshot", tmp_path / "out.json", "--anonymous", "--from", file)
    assert done.stderr == f"{tmp_path / 'out.json'}: 4 nodes, 2 pods, 6 objects in all\n"
    text = (tmp_path / "out.json").read_text()
    assert SECRET.findall(text) == []
    assert "NVIDIA-L4" in text
    plain, hashed = (document("why", "--from", f) for f in (file, tmp_path / "out.json"))
    assert [c["cause"] for c in hashed[0]["causes"]] == [c["cause"] for c in plain[0]["causes"]]
    found = document("top", "--from", tmp_path / "out.json")
    assert sum(each["gpus"]["nvidia.com/gpu"]["allocated"] for each in found) == 6


def test_an_anonymous_snapshot_keeps_a_list_of_fields(tmp_path: Path) -> None:
    kept = node(
        "gpu-a",
        labels={"cloud.google.com/gke-nodepool": "s3cr3t", "team.acme/x": "s3cr3t"},
        taints=["team=s3cr3t:NoSchedule"],
    )
    kept["spec"]["providerID"] = "aws:///s3cr3t"
    kept["status"]["nodeInfo"] = {"machineID": "s3cr3t", "kubeletVersion": "v1.37.1"}
    volumes = [
        {"name": "v", "secret": {"secretName": "s3cr3t"}},
        {"name": "w", "nfs": {"server": "s3cr3t", "path": "/s3cr3t"}},
    ]
    mounted = {"name": "s3cr3t", "image": "s3cr3t", "volumeMounts": [{"name": "v", "mountPath": "/s3cr3t"}]}
    affinity = required("team", "In", "s3cr3t")
    waits = placed(pod("waits", 1, volumes=volumes, container=mounted, affinity=affinity, hostname="s3cr3t"), None)
    waits["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": 'error getting secret "s3cr3t"'},
        {"type": "Other", "message": "0/1 nodes are available: 1 node(s) had untolerated taint {team: s3cr3t}."},
    ]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s3cr3t"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "gpu-a",
            "pool": {"name": "s3cr3t", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": "s3cr3t", "attributes": {"uuid": {"string": "s3cr3t"}, "productName": {"string": "H100"}}}
            ],
        },
    }
    file = write(tmp_path, kept, waits, claim)
    call("snapshot", tmp_path / "out.json", "--anonymous", "--from", file, "--metrics", "off")
    text = (tmp_path / "out.json").read_text()
    assert "s3cr3t" not in text
    for public in ("H100", "gpu.nvidia.com", "NVIDIA-A100-SXM4-80GB", '"providerID":"x"', "untolerated taint"):
        assert public in text
    plain, hashed = (document("why", "--from", f) for f in (file, tmp_path / "out.json"))
    words = [
        [(cause["cause"], cause["fixes"][0]["enough"], len(cause["nodes"])) for cause in each[0]["causes"]]
        for each in (plain, hashed)
    ]
    assert words[1] == [word for word in words[0] if word[0] != "schedulerOther"]


def test_what_an_anonymous_snapshot_lacks_names_nobody(tmp_path: Path) -> None:
    cluster = read_snapshot(write(tmp_path, *CLUSTER))
    said = "no right to list pods of other namespaces"
    cluster.missing |= {
        "Pod": f"{said} than acme",
        "Event": "/home/acme/team.json has no events",
        "ReplicaMetrics": "no metrics of the replicas: GET https://api.acme.example:6443/api/v1/pods: no answer",
    }
    missing = anonymous(cluster).missing
    assert SECRET.findall(str(missing)) == []
    assert (missing["Pod"], missing["Event"], missing["ReplicaMetrics"]) == (said, "it was not read", "it was not read")
    write_snapshot(anonymous(cluster), tmp_path / "out.json")
    call("ui", "--from", tmp_path / "out.json", "--html", tmp_path / "page.html")
    assert str(tmp_path) not in (tmp_path / "page.html").read_text(), "nor does the page that is made of it"


@pytest.mark.parametrize(
    ("created", "reserved"),
    [
        pytest.param("2026-11-18T11:06:30Z", 2, id="a pod that came a moment ago"),
        pytest.param("2026-11-18T10:00:00Z", 0, id="one that waits for an hour"),
    ],
)
def test_reservations_are_as_old_as_their_pods(tmp_path: Path, created: str, reserved: int) -> None:
    assert seconds("2026-11-18T11:06:40Z") == TAKEN
    preferred = [
        {
            "weight": 100,
            "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-a"]}]},
        }
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    fresh = placed(pod("fresh", 2, affinity=affinity), None)
    fresh["metadata"] |= {"creationTimestamp": created, "annotations": {DECISION: '{"nodes":[["gpu-a",8,0,1.0]]}'}}
    found = document("top", "nodes", "gpu-a", "--from", write(tmp_path, node("gpu-a"), fresh))
    assert found[0]["gpus"]["nvidia.com/gpu"] == {
        "total": 8,
        "allocated": 0,
        "promised": reserved,
        "free": 8 - reserved,
        "unusable": 0,
    }


def test_an_object_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-a"}, "status": {"allocatable": 7}}
    with pytest.raises(
        BadInput, match=r'Node "gpu-a": status.allocatable: wanted a map, saw a number. Give it as kubectl prints it$'
    ):
        assert read_snapshot(write(tmp_path, broken)).state
    with pytest.raises(BadInput, match="cannot be written: No such file"):
        write_snapshot(Snapshot({}), tmp_path / "no" / "file")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param({"kind": "Pod", "spec": {"volumes": "x"}}, 'Pod "n": spec.volumes: wanted a list, saw a string', id="a pod"),
        pytest.param({"kind": "Pod", "metadata": {"name": "n", "namespace": ["x"]}}, 'Pod "n": metadata.namespace: wanted a string, saw a list', id="its namespace"),
        pytest.param(
            {"kind": "Pod", "spec": {"topologySpreadConstraints": [{"labelSelector": {"matchLabels": "x"}}]}},
            'Pod "n": spec.topologySpreadConstraints[0].labelSelector.matchLabels: wanted a map, saw a string', id="a selector",
        ),
        pytest.param({"kind": "Namespace", "metadata": {"name": "n", "labels": {"a": [None]}}}, 'Namespace "n": metadata.labels["a"]: wanted a string, saw a list', id="a label"),
    ],
)  # fmt: skip
def test_an_object_that_is_not_as_kubectl_prints_it_is_named(tmp_path: Path, made: dict[str, Any], said: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"metadata": {"name": "n"}} | made))
    with pytest.raises(BadInput) as error:
        read_snapshot(path)
    assert str(error.value) == f"{path}: {said}. Give it as kubectl prints it"
