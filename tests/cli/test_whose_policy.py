"""By which policy each command answers, where that of the cluster is none that it can use: one line says it, and nothing ends."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, OPTED_IN, TAKEN, call, write
from tests.controlplane.objects import made, pod
from webhook.whatif.cluster.snapshot import Snapshot

NEWER = "# For gpu-admission 99.0.0.\nprofiles: {default: {rules: {brandNew: {action: warn}}}}"
SAID = {
    NEWER: "the shipped policy, since that of the cluster is for gpu-admission 99.0.0: use the command of that version",
    "gpu: []": "the shipped policy, since that of the cluster cannot be used: line 1: gpu: unknown key",
}
COMMANDS = (
    *("why", "why waits -n team", "why -o json", "top", "top namespaces", "drain", "drain gpu-a -o yaml"),
    *("try -n team -f FILE", "policy diff", "policy explain", "policy explain gpuFits", "policy export"),
    "ui --html PAGE",
)


def cluster(folder: Path, text: str) -> Path:
    policy = made("ConfigMap", "gpu-admission-policy", data={"policy.yaml": text})
    policy["metadata"]["namespace"] = "gpu-admission"
    return write(folder, *CLUSTER, OPTED_IN, policy)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("text", SAID, ids=["newer", "wrong"])
def test_one_line_says_by_which_policy_it_answers(tmp_path: Path, file: Any, text: str, command: str) -> None:
    names = {"FILE": str(file(pod("one", 1))), "PAGE": str(tmp_path / "page.html")}
    arguments = [names.get(word, word) for word in command.split()]
    result = call(*arguments, "--from", cluster(tmp_path, text))
    assert result.exit_code < 2, result.stderr
    assert [SAID[text] in line for line in result.stderr.splitlines()].count(True) == 1, result.stderr


def test_a_policy_of_a_newer_version_is_no_mistake(tmp_path: Path) -> None:
    result = call("doctor", "--from", cluster(tmp_path, NEWER))
    assert "unknown policy: it is for gpu-admission 99.0.0, and this command is " in result.stdout
    assert "has not taken up" not in result.stdout


@pytest.mark.parametrize(
    "command", ["policy lint FILE", "why --policy FILE", "doctor --policy FILE", "policy diff FILE"]
)
def test_a_file_of_a_newer_version_is_said_to_be_one(tmp_path: Path, command: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(NEWER)
    read = [] if "lint" in command else ["--from", cluster(tmp_path, "{}")]
    result = call(*command.replace("FILE", str(policy)).split(), *read)
    assert "it is for gpu-admission 99.0.0, and this command is " in result.output
    assert "brandNew" in result.output or "doctor" in command


def test_that_of_the_cluster_is_named_by_its_hash(tmp_path: Path) -> None:
    for command, said in (("why", True), ("top", False)):  # whose GPUs they are depends little on it
        result = call(command, "--from", cluster(tmp_path, "{}"))
        assert ("by the policy of the cluster, " in result.stderr) == said, command


def test_an_empty_snapshot_has_no_policy() -> None:
    assert Snapshot({}, taken=TAKEN).policy is None
