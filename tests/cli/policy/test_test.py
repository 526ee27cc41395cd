"""`gpu-admission policy test`: cases of pods and their expected decisions, among them the example in `manifests/examples/tests`.

Covers whatif.verdict.
"""

import json
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
import yaml

from tests.cli.objects import call, document, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import job, pod

EXAMPLE = Path(__file__).resolve().parents[3] / "manifests" / "examples" / "tests"
SHARE = {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"nvidia.com/gpu": "1"}}
ONE = pod("one", container={"resources": SHARE})
SPEC = {"containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}


def cases(folder: Path, *found: Any, name: str = "pods.test.yaml", **more: Any) -> Path:
    named = [{"name": f"case {number}", "pod": ONE} | each for number, each in enumerate(found)]
    path = folder / name
    path.write_text(json.dumps({**more, "cases": named}))  # JSON is YAML, and has no aliases
    return path


def states(folder: Path, *arguments: Any) -> list[str]:
    return [each["state"] for each in document("policy", "test", folder, *arguments)]


def test_the_example_passes() -> None:
    result = call("policy", "test", EXAMPLE)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("5 cases: 5 passed\n")


@pytest.mark.parametrize(
    ("expect", "state"),
    [
        pytest.param({}, "passed", id="nothing is expected"),
        pytest.param({"outcome": "changed"}, "passed", id="the outcome"),
        pytest.param({"outcome": "refused"}, "failed", id="another outcome"),
        pytest.param({"findings": []}, "passed", id="no finding"),
        pytest.param({"findings": ["gpuFits"]}, "failed", id="a finding that is not there"),
        pytest.param({"message": "too many"}, "failed", id="a message that is not there"),
        pytest.param({"node": ""}, "passed", id="no node, as there is no cluster"),
        pytest.param({"node": "gpu-a"}, "failed", id="a node that is not chosen"),
        pytest.param({"changes": {"spec": SPEC}}, "passed", id="a part of the pod"),
        pytest.param({"changes": {"spec": {"nodeName": None}}}, "passed", id="a field that is not there"),
        pytest.param({"changes": {"spec": {"containers": None}}}, "failed", id="a field that is there"),
        pytest.param({"changes": {"spec": {"containers": []}}}, "failed", id="a list that is longer"),
        pytest.param({"changes": {"metadata": {"labels": {"app": "two"}}}}, "failed", id="another value"),
    ],
)
def test_each_kind_of_expectation(tmp_path: Path, expect: Any, state: str) -> None:
    cases(tmp_path, {"expect": expect})
    assert states(tmp_path) == [state]


def test_with_a_cluster_a_node_is_chosen(tmp_path: Path) -> None:
    write(tmp_path, node("gpu-a"), node("gpu-b", ready=False))
    found = [{"expect": {"node": name}} for name in ("gpu-a", ["gpu-b", "gpu-a"], "gpu-b", "")]
    cases(tmp_path, *found, cluster="cluster.json")
    assert states(tmp_path) == ["passed", "passed", "failed", "failed"]


def test_the_pod_and_the_policy_may_be_files_and_the_pod_a_workload(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job("train", 4, 1)))
    (tmp_path / "dry-run.yaml").write_text("profiles: {default: {dryRun: true}}")
    found = {"pod": "job.yaml", "expect": {"outcome": "changed"}}
    cases(tmp_path, found, found | {"policy": "dry-run.yaml"})
    assert states(tmp_path) == ["passed", "failed"]
    assert states(tmp_path, "--policy", tmp_path / "dry-run.yaml") == ["failed", "failed"]


def test_a_policy_and_a_cluster_inside_the_file(tmp_path: Path) -> None:
    found = {"pod": pod("host", hostPID=True), "expect": {"outcome": "changed", "node": "gpu-a"}}
    loose = {"profiles": {"default": {"rules": {"hostNamespaces": {"action": "off"}}}}}
    cases(tmp_path, found, found | {"policy": loose}, cluster=[node("gpu-a")])
    assert states(tmp_path) == ["failed", "passed"]


def test_a_difference_is_shown_as_a_diff_with_status_1(tmp_path: Path) -> None:
    wanted = {"spec": {"containers": [{"resources": {"requests": {"cpu": "9"}}}]}}
    path = cases(tmp_path, {"expect": {"changes": wanted, "node": "gpu-a"}}, {"expect": {"outcome": "changed"}})
    result = call("policy", "test", tmp_path)
    assert result.exit_code == 1
    assert (
        result.stdout
        == f"""\
failed  {path}: case 0
        node: saw none (cluster state is stale), wanted gpu-a
        pod: - wanted, + seen
        ⋮
               requests:
                 nvidia.com/gpu: '1'
        -        cpu: '9'
        +        cpu: '8'
                 memory: 32Gi
               limits:
passed  {path}: case 1
2 cases: 1 passed, 1 failed
"""
    )


def test_junit(tmp_path: Path) -> None:
    cases(tmp_path, {"expect": {}}, {"expect": {"message": "<&>"}}, {"pod": "no.yaml", "expect": {}})
    result = call("policy", "test", tmp_path, "--junit", tmp_path / "junit.xml")
    assert result.exit_code == 2, "one could not be tried"
    (suite,) = fromstring((tmp_path / "junit.xml").read_text())
    assert {key: suite.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["error"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{}", "line 1: cases: this key is missing", id="no cases"),
        pytest.param("cases: []", "cases: saw none, wanted at least one", id="an empty list"),
        pytest.param("- {name: a}", "line 1: saw a list; wanted a map with policy, cluster, namespace, cases", id="a list"),
        pytest.param("\n", "line 1: saw nothing; wanted a map with policy, cluster, namespace, cases", id="nothing"),
        pytest.param("word", "line 1: saw a string; wanted a map with policy, cluster, namespace, cases", id="a word"),
        pytest.param("a: 1\nb: 2", "1 case: 1 error", id="several mistakes in one file"),
        pytest.param("cases: [{name: a, pod: p, expect: {result: changed}}]", "line 1: cases[0].expect.result: unknown key", id="a misspelt key"),
        pytest.param("cases: [{name: a, pod: p, expect: {outcome: denied}}]", "'refused', 'changed'", id="an unknown outcome"),
        pytest.param("a: [", "not YAML", id="not YAML"),
        pytest.param("cases: [{name: a, pod: no.yaml, expect: {}}]", "no.yaml: cannot be read", id="a file that is not there"),
        pytest.param("cases: [{name: a, pod: {kind: Service}, expect: {}}]", 'saw kind "Service"', id="not a pod"),
        pytest.param("cases: [{name: a, pod: {kind: Pod, metadata: {}, spec: []}, expect: {}}]", "spec: wanted a map, saw a list", id="a malformed pod"),
        pytest.param("cases: [{name: a, policy: no.yaml, pod: {kind: Pod}, expect: {}}]", "no.yaml: cannot be read", id="no such policy"),
    ],
)  # fmt: skip
def test_a_case_that_cannot_be_tried_says_why_with_status_2(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.test.yaml").write_text(text)
    result = call("policy", "test", tmp_path)
    assert result.exit_code == 2
    assert said in result.stdout


def test_a_folder_without_cases(tmp_path: Path) -> None:
    result = call("policy", "test", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        result.stderr == f"error: {tmp_path}: no file of cases there: wanted some *.test.yaml. docs/cli.md shows one\n"
    )
