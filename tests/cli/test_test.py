"""`gpu-admission test`: cases as they should be and as they are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.cli.objects import call, write
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import deployment, pod

GOOD = {"name": "a pod", "object": pod("one", 1), "expect": {"result": "allowed"}}
TOLERATED = {"spec": {"tolerations": [{"key": "nvidia.com/gpu"}]}}
NODES = [node("gpu-a", taints=[GPU_TAINT]), node("gpu-b", 4, taints=[GPU_TAINT])]


def run(folder: Path, *cases: Any, more: tuple[Any, ...] = ()) -> Any:
    (folder / "cases.yaml").write_text(yaml.safe_dump_all(cases))
    return call("test", folder, *more)


def case(made: Any, **expect: Any) -> dict[str, Any]:
    return {"name": "case", "object": made, "cluster": NODES, "expect": expect}


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(GOOD, id="allowed"),
        pytest.param(
            case(
                pod("one", 1, hostPID=True),
                result="refused",
                findings=["hostNamespaces"],
                message="spec.hostPID",
            ),
            id="refused",
        ),
        pytest.param(case(pod("one", 1), pod=TOLERATED), id="a part of the pod"),
        pytest.param(case(pod("one", 0), unchanged=True, node=""), id="unchanged"),
        pytest.param(case(pod("one", 8), node="gpu-a"), id="a node"),
        pytest.param(case(deployment("chat", 1, 64), result="refused"), id="a workload whose pods will be refused"),
        pytest.param(
            GOOD
            | {
                "policy": {"profiles": {"default": {"rules": {"hostNamespaces": {"action": "off"}}}}},
                "object": pod("x", 1, hostPID=True),
            },
            id="a policy of its own",
        ),
    ],
)
def test_a_case_that_is_as_expected(tmp_path: Path, made: Any) -> None:
    result = run(tmp_path, made)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"ok    {made['name']}\n"
    assert result.stderr == "1 case, 0 failed\n"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param(case(pod("one", 1), result="refused"), "result: expected refused, it is allowed", id="a result"),
        pytest.param(
            case(pod("one", 1), findings=["gpuLimit"]), "findings: expected gpuLimit; found none: ", id="findings"
        ),
        pytest.param(case(pod("one", 1), message="no such"), "message: expected 'no such' in ", id="a message"),
        pytest.param(
            case(pod("one", 1), pod={"spec": {"hostPID": True}}), "pod: - expected, + found", id="a part of the pod"
        ),
        pytest.param(case(pod("one", 1), unchanged=True), "+  tolerations:", id="a change"),
        pytest.param(case(pod("one", 1), node="gpu-z"), "node: expected gpu-z, it is gpu-", id="a node"),
        pytest.param(
            case(pod("one", 64), node="gpu-a"), "node: expected gpu-a, it is none (no node fits)", id="no node"
        ),
        pytest.param(
            {"name": "odd", "object": {}, "expect": {"nodes": 1}},
            "expect.nodes: Extra inputs are not permitted",
            id="a misspelt key",
        ),
        pytest.param(
            {"name": "odd", "object": {"kind": "X"}, "expect": {}},
            "object: wanted one pod or workload, saw 0",
            id="no pod",
        ),
        pytest.param(
            {"name": "odd", "object": "none.yaml", "expect": {}},
            "cannot be read: No such file",
            id="a file that is not there",
        ),
        pytest.param(GOOD | {"policy": {"gpu": []}}, "line 1: gpu: unknown key", id="a bad policy"),
    ],
)
def test_a_case_that_is_not_says_what_is_different(tmp_path: Path, made: Any, said: str) -> None:
    result = run(tmp_path, made, GOOD)
    assert result.exit_code == 1
    assert said in result.stdout
    assert result.stdout.startswith(f"FAIL  {made['name']}\n")
    assert result.stdout.endswith("ok    a pod\n"), "one that fails hides no other"
    assert result.stderr == "2 cases, 1 failed\n"


def test_files_are_named_from_where_the_case_is(tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "pod.json").write_text(json.dumps(pod("one", 8)))
    (tmp_path / "policy.yml.txt").write_text("profiles: {default: {shadow: true}}")
    write(tmp_path, *NODES)
    made = {
        "name": "files",
        "object": "pods/pod.json",
        "policy": "policy.yml.txt",
        "cluster": "cluster.json",
        "expect": {"node": "gpu-a"},
    }
    assert run(tmp_path, made).exit_code == 0


def test_documents_and_junit(tmp_path: Path) -> None:
    result = run(tmp_path, GOOD, case(pod("one", 1), node="x"), more=("-o", "json", "--junit", tmp_path / "report.xml"))
    assert [bool(each["wrong"]) for each in json.loads(result.stdout)] == [False, True]
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert "node: expected x" in str(suite[1][0].get("message"))


@pytest.mark.parametrize("name", ["none", "empty"])
def test_nothing_to_run_is_status_2(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    result = call("test", tmp_path / name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
