"""Files are judged as the API server would store their pods: with what RuntimeClass, LimitRange and PriorityClass add, and what it
refuses is said.

Covers framework.limit_ranges.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import OPTED_IN, call, document, namespace, write
from tests.cli.policy.test_test import states
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, made, pod

Json = dict[str, Any]
POOL = {"key": "pool", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
NVIDIA = made(
    "RuntimeClass",
    "nvidia",
    handler="nvidia",
    overhead={"podFixed": {"cpu": "250m", "memory": "160Mi"}},
    scheduling={"nodeSelector": {"runtime": "nvidia"}, "tolerations": [POOL]},
)
NODES = [
    node("gpu-nv", 4, labels={"runtime": "nvidia"}, taints=["pool=gpu:NoSchedule"]),
    node("gpu-gv", 8, labels={"runtime": "gvisor"}, taints=["pool=gpu:NoSchedule"]),
]
ONE, EIGHT = (pod(name, gpus, runtimeClassName="nvidia") for name, gpus in (("one", 1), ("eight", 8)))
CONFLICT = pod("conflict", 1, runtimeClassName="nvidia", nodeSelector={"runtime": "gvisor"})
SAID = (
    'spec.nodeSelector[runtime]: saw "gvisor", wanted "nvidia", which RuntimeClass "nvidia" sets. '
    "Remove the line, or name another spec.runtimeClassName."
)


def limits(**entry: Json) -> Json:
    found = made("LimitRange", "small", spec={"limits": [{"type": "Container", **entry}]})
    return found | {"metadata": {"name": "small", "namespace": "team"}}


def cluster(folder: Path, *more: Json, opted_in: bool = True) -> Path:
    return write(folder, *NODES, NVIDIA, OPTED_IN if opted_in else namespace(), *more)


def file(folder: Path, obj: Json) -> Path:
    (folder / "pod.json").write_text(json.dumps(obj | {"metadata": obj["metadata"] | {"namespace": "team"}}))
    return folder / "pod.json"


@pytest.mark.parametrize("obj", [ONE, deployment("one", runtimeClassName="nvidia")], ids=["a pod", "a template"])
def test_a_node_is_chosen_where_the_pod_can_run(tmp_path: Path, obj: Json) -> None:
    (found,) = document("try", "-f", file(tmp_path, obj), "--from", cluster(tmp_path))["items"]
    assert ([each["name"] for each in found["decision"]["nodes"]], found["good"]) == (["gpu-nv"], True)
    assert not any("runtime:" in line for line in found["diff"]), "the webhook does not add it"


def test_what_no_node_has_is_said_without_a_taint_that_the_pod_will_tolerate(tmp_path: Path) -> None:
    called = call("try", "-f", file(tmp_path, EIGHT), "--from", cluster(tmp_path))
    assert "8" in called.stdout
    assert "taint" not in called.stdout + called.stderr


@pytest.mark.parametrize("opted_in", [True, False])
def test_a_pod_starts_where_it_can_run(tmp_path: Path, opted_in: bool) -> None:
    known = cluster(tmp_path, opted_in=opted_in)
    (found,) = document("try", "-f", file(tmp_path, ONE), "--from", known)["items"]
    assert found["bound"] == {"gpu-nv": 1}
    (found,) = document("try", "-f", file(tmp_path, EIGHT), "--from", known)["items"]
    assert "taint" not in [cause["cause"] for cause in found["causes"]]


@pytest.mark.parametrize("opted_in", [True, False])
@pytest.mark.parametrize(
    "obj",
    [CONFLICT, deployment("conflict", runtimeClassName="nvidia", nodeSelector={"runtime": "gvisor"})],
    ids=["a pod", "a template"],
)
def test_a_conflict_that_the_api_server_refuses_is_said(tmp_path: Path, opted_in: bool, obj: Json) -> None:
    called = call("try", "-f", file(tmp_path, obj), "--from", cluster(tmp_path, opted_in=opted_in))
    assert (called.exit_code, f"the API server refuses it: {SAID}\n" in called.stdout) == (1, True)


def test_defaults_of_a_limit_range_count(tmp_path: Path) -> None:
    large = cluster(tmp_path, limits(default={"cpu": "900"}, defaultRequest={"cpu": "900"}))
    (found,) = document("try", "-f", file(tmp_path, ONE), "--from", large)["items"]
    assert (found["good"], found["outcome"], "900" in found["message"]) == (False, "refused", True)


@pytest.mark.parametrize("opted_in", [True, False])
def test_what_a_limit_range_refuses_is_said(tmp_path: Path, opted_in: bool) -> None:
    known = cluster(tmp_path, limits(min={"nvidia.com/gpu": "2"}), opted_in=opted_in)
    said = 'limits[nvidia.com/gpu]: saw 1, wanted at least 2 in LimitRange "small"'
    called = call("try", "-f", file(tmp_path, ONE), "--from", known)
    assert (called.exit_code, said in called.output) == (1, True)


def test_a_case_of_a_policy_and_a_recorded_request_are_judged_so_too(tmp_path: Path) -> None:
    cases = [
        {"name": "one", "pod": ONE, "expect": {"node": "gpu-nv"}},
        {"name": "conflict", "pod": CONFLICT, "expect": {"outcome": "refused", "message": "the API server refuses it"}},
    ]
    (tmp_path / "some.test.yaml").write_text(
        json.dumps({"namespace": "team", "cluster": [*NODES, NVIDIA, OPTED_IN], "cases": cases})
    )
    assert states(tmp_path / "some.test.yaml") == ["passed", "passed"]
    about = {"resource": "pods", "namespace": "team"}
    event = {"apiVersion": "audit.k8s.io/v1", "kind": "Event", "stage": "ResponseComplete", "verb": "create"}
    log = tmp_path / "audit.log"
    log.write_text(json.dumps({**event, "objectRef": about, "requestObject": ONE}))
    found = document("policy", "diff", "default", "-f", log, "--from", cluster(tmp_path))
    assert [each["after"]["node"] for each in found] == ["gpu-nv"]


def test_a_snapshot_has_what_is_needed_also_without_names(tmp_path: Path) -> None:
    known = cluster(tmp_path, limits(default={"cpu": "900"}, defaultRequest={"cpu": "900"}, min={"cpu": "1"}))
    call("snapshot", tmp_path / "out.json", "--anonymous", "--from", known, "--metrics", "off")
    kept = {each["kind"]: each for each in json.loads((tmp_path / "out.json").read_text())["items"]}
    (entry,) = kept["LimitRange"]["spec"]["limits"]
    assert (entry["type"], entry["default"], entry["min"]) == ("Container", {"cpu": "900"}, {"cpu": "1"})
    assert kept["RuntimeClass"]["overhead"] == NVIDIA["overhead"]
    assert kept["RuntimeClass"]["scheduling"]["nodeSelector"].keys() == {"runtime"}
