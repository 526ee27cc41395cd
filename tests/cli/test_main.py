"""The interface for scripts: input, exit statuses, help.

Covers errors, cli.policy.export, cli.policy.lint, cli.options, cli.serve, cli.terminal, cli.version.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cli.given import CONFLICT, GOOD
from tests.cli.objects import call, document, write
from webhook.cli.cluster.answers import QUESTIONS
from webhook.cli.main import COMMANDS, POLICY
from webhook.kube.kinds import KINDS
from webhook.kube.pod import ZONE


def test_the_versions_of_client_and_server(tmp_path: Path) -> None:
    samples = [["gpu_admission_build_info", {"version": "9.9"}, 1.0]]
    replica = {"kind": "ReplicaMetrics", "metadata": {"name": "r"}, "status": {"samples": samples}}
    server = {"kind": "ApiServerVersion", "metadata": {"name": "kube-apiserver"}, "status": {"gitVersion": "v1.37.1"}}
    file = write(tmp_path, replica, server, kinds=(*KINDS, *QUESTIONS))
    client = version("gpu-admission")
    assert call("version", "--from", file).stdout == f"Client: {client}\nWebhook: 9.9\nKubernetes: v1.37.1\n"
    assert call("version", "--client").stdout == f"Client: {client}\n"
    found = document("version", "--from", file)
    assert {key: found[key] for key in ("client", "webhook", "kubernetes")} == {
        "client": client,
        "webhook": ["9.9"],
        "kubernetes": "v1.37.1",
    }
    unknown = call("version", "--from", write(tmp_path)).stdout.splitlines()
    assert unknown[1].startswith("Webhook: not known: ")
    assert unknown[1].endswith("has no metrics of the replicas")


def test_the_version_is_that_of_the_package() -> None:
    assert call("--version").stdout == f"gpu-admission {version('gpu-admission')}\n"


MISSING = "cannot be read: No such file or directory. Give"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["try", "--offline", "-f", "/no"], f"/no: {MISSING} a file, or - for stdin", id="a missing file"),
        pytest.param(["try", "--offline", "-f", "-", "--policy", "/no"], f"/no: {MISSING} a file, or - for stdin", id="a missing policy"),
        pytest.param(["try", "-f", "-", "--from", "/no"], f"/no: {MISSING} what kubectl get -o json prints", id="a missing snapshot"),
        pytest.param(["policy", "lint", "/no"], f"/no: {MISSING} a file, or - for stdin", id="nothing to lint"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_a_one_line_error(arguments: list[str], said: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert (result.stdout, result.stderr) == ("", f"error: {said}\n")


@pytest.mark.parametrize(
    "command",
    [
        "try -f - --from -",
        "try -f - -f -",
        "try -f - --policy -",
        "policy diff - -f -",
        "policy diff - --before - -f a.log",
        "top --from - --policy -",
    ],
)
def test_stdin_stands_for_one_file(command: str) -> None:
    result = call(*command.split(), stdin=json.dumps(GOOD))
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        result.stderr == "error: saw - for 2 files, wanted it for one: stdin is read once. Give the other as a file\n"
    )


def test_stdin_and_stdout_are_two_files() -> None:
    assert call("snapshot", "-", "--from", "-", "--metrics", "off", stdin=json.dumps(GOOD)).exit_code == 0


@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        pytest.param("", "error: -: no document in it: wanted pods or AdmissionReviews, as YAML or JSON\n", id="nothing"),
        pytest.param("# nothing\n---\n", "error: -: no document in it: wanted pods or AdmissionReviews, as YAML or JSON\n", id="comments"),
        pytest.param('{"kind": "List", "items": []}', "error: -: no document in it: wanted pods or AdmissionReviews, as YAML or JSON\n", id="an empty list"),
        pytest.param('{"kind": "Pod"}', "error: -: document 1: metadata: wanted a map, saw nothing\n", id="a malformed pod"),
        pytest.param("a: [", None, id="broken YAML"),
        pytest.param('{"kind": "Pod"', None, id="broken JSON"),
        pytest.param(b"\xff\xfe\xfd", None, id="another encoding"),
        pytest.param("[" * 300_000, None, id="very deep nesting"),
        pytest.param("hello", "error: -: document 1: wanted a Pod or an AdmissionReview, saw a string\n", id="a word"),
    ],
)  # fmt: skip
def test_bad_input_is_a_one_line_error(stdin: bytes | str, said: str | None) -> None:
    result = call("try", "--offline", "-f", "-", stdin=stdin)
    assert result.exit_code == 2
    assert result.stdout == ""
    first = result.stderr.partition("\n")[0] + "\n"
    assert first == said or (said is None and first.startswith("error: -: neither YAML nor JSON: "))


@pytest.mark.parametrize(
    "arguments", [["policy", "lint"], ["try", "-o", "table"], ["nothing"], ["top", "--x"], ["policy", "x"]], ids=str
)
def test_wrong_arguments_are_status_2(arguments: list[str]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage" in result.stderr


def test_lint(file: Any) -> None:
    good = file({"profiles": {"default": {}, "quiet": {"dryRun": True}}}, name="good.yaml")
    result = call("policy", "lint", good)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{good}: good: 2 profiles, hash ")
    bad = file({"gpu": []}, name="bad.yaml")
    result = call("policy", "lint", bad)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f'{bad}: line 1: gpu: unknown key; did you mean "gpus"?\n'
    assert call("policy", "lint", "-", stdin="gpus: []").exit_code == 0


@pytest.mark.parametrize(
    ("spread", "warns"),
    [
        pytest.param({"constraints": [{"key": ZONE, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}]}, True, id="hard"),
        pytest.param({"constraints": [{"key": ZONE}]}, False, id="a preference"),
        pytest.param({"constraints": [{"key": ZONE, "whenUnsatisfiable": "DoNotSchedule"}], "enabled": False}, False, id="off"),
        pytest.param({"constraints": [{"key": ZONE, "whenUnsatisfiable": "DoNotSchedule"}], "mode": "antiAffinity"}, False, id="another mode"),
    ],
)  # fmt: skip
def test_lint_warns_of_a_hard_constraint_that_counts_domains_without_gpus(
    file: Any, spread: dict[str, Any], warns: bool
) -> None:
    path = file({"profiles": {"default": {}, "hard": {"injectors": {"topologySpread": spread}}}}, name="p.yaml")
    result = call("policy", "lint", path)
    said = (
        f"{path}: warning: profiles.hard.injectors.topologySpread.constraints: DoNotSchedule over {ZONE} also counts values that "
        "only nodes without GPUs have: then at most 2 pods (maxSkew) of a workload start for each other value, and the rest "
        "waits. Use ScheduleAnyway, or give the pods a nodeSelector that only nodes with GPUs meet; gpu-admission doctor names the "
        "values\n"
    )
    assert (result.exit_code, result.stderr) == (0, said if warns else "")


def test_certs(tmp_path: Path) -> None:
    result = call("certs", tmp_path / "certs", "--host", "localhost", "--host", "127.0.0.1")
    assert result.exit_code == 0
    written = [Path(line) for line in result.stdout.splitlines()]
    assert [path.name for path in written] == ["ca.pem", "tls.pem", "tls-key.pem"]
    assert all(path.exists() for path in written)


@pytest.mark.parametrize(
    ("of", "commands"), [pytest.param([], COMMANDS, id="all"), pytest.param(["policy"], POLICY, id="policy")]
)
def test_help_names_every_command_in_order(of: list[str], commands: Mapping[str, str]) -> None:
    text = call(*of, "--help").stdout
    words = [line.split()[1] for line in text.splitlines() if len(line.split()) > 1]
    assert list(dict.fromkeys([word for word in words if word in commands])) == list(commands)


EVERY = [[name] for name in COMMANDS if name != "policy"] + [["policy", name] for name in POLICY]


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_the_help_of_a_command_has_an_example_and_names_no_command_that_is_none(command: list[str]) -> None:
    text = call(*command, "--help").stdout
    named = re.findall(r"gpu-admission (policy )?([a-z-]+)", re.sub(r"[│\s]+", " ", text))
    assert command[0] in ("serve", "certs", "ui", "snapshot") or named
    assert [name for of, name in named if name not in (POLICY if of else COMMANDS)] == []


# --- as a process -----------------------------------------------------------------------------------------------------


def test_the_program_itself(tmp_path: Path) -> None:
    """As a process: stdin, stdout, stderr and exit status."""
    command = [sys.executable, "-m", "webhook"]
    text = orjson.dumps(GOOD) + orjson.dumps(CONFLICT)
    done = subprocess.run(
        [*command, "try", "--offline", "-f", "-", "-o", "patch"], input=text, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.startswith(b'-: document 2: pod/two: refused: pod "two": ')
    assert b"\x1b" not in done.stderr, "no colours without a terminal"
