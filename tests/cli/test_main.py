"""The interface for scripts: input, and exit statuses. What is printed: tests/cli/test_decisions.py.

Covers errors, cli.export, cli.lint, cli.options, cli.serve, cli.terminal.
"""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders import admission_review
from tests.cli.given import BAD, CONFLICT, GOOD, PLAIN, SERVICE, TRAINING
from tests.cli.objects import call
from webhook.cli.main import COMMANDS
from webhook.kube.pod import ZONE

# --- exit status ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "values", "status"),
    [
        pytest.param("mutate", [GOOD], 0, id="mutate, a good pod"),
        pytest.param("mutate", [PLAIN], 0, id="mutate, a pod without a GPU"),
        pytest.param("mutate", [GOOD, CONFLICT, GOOD], 1, id="mutate, one conflict among good ones"),
        pytest.param("mutate", [SERVICE], 0, id="mutate, a Service"),
        pytest.param("mutate", [SERVICE, CONFLICT, {"kind": "Service"}], 2, id="mutate, an object without apiVersion"),
        pytest.param("validate", [PLAIN], 0, id="validate, a pod without a GPU"),
        pytest.param("validate", [CONFLICT], 1, id="validate, a conflict"),
        pytest.param("validate", [GOOD, BAD], 1, id="validate, one bad pod among good ones"),
        pytest.param("validate", [BAD, {"kind": "Pod"}], 2, id="validate, a bad pod and then a malformed one"),
        pytest.param("validate", [admission_review(BAD)], 1, id="validate, a review"),
        pytest.param("validate", [TRAINING], 1, id="validate, a workload that the policy names"),
    ],
)
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_exit_status(file: Any, command: str, values: list[Any], status: int, form: str) -> None:
    result = call(command, file(*values, form=form))
    assert result.exit_code == status
    assert bool(result.stderr) == (status != 0) or command == "mutate"


def test_the_version_is_that_of_the_package() -> None:
    assert call("--version").stdout == f"gpu-admission {version('gpu-admission')}\n"


MISSING = "cannot be read: No such file or directory. Give"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["mutate", "/no"], f"/no: {MISSING} a file, or - for stdin", id="a missing file"),
        pytest.param(["validate", "/"], "/: cannot be read: Is a directory. Give a file, or - for stdin", id="a folder"),
        pytest.param(["mutate", "-", "--policy", "/no"], f"/no: {MISSING} a file, or - for stdin", id="a missing policy"),
        pytest.param(["mutate", "-", "--cluster", "/no"], f"/no: {MISSING} what kubectl get -o json prints", id="a missing cluster"),
        pytest.param(["lint", "/no"], f"/no: {MISSING} a file, or - for stdin", id="nothing to lint"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_a_one_line_error(arguments: list[str], said: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert (result.stdout, result.stderr) == ("", f"error: {said}\n")


@pytest.mark.parametrize(
    "command",
    [
        "explain -f - --cluster -",
        "explain -f - -f -",
        "simulate -f - --cluster -",
        "simulate --trace - --cluster -",
        "mutate - --cluster -",
        "validate - --policy -",
        "replay - --policy -",
        "replay a.log --policy - --before -",
        "nodes --cluster - --policy -",
    ],
)
def test_stdin_stands_for_one_file(command: str) -> None:
    result = call(*command.split(), stdin=json.dumps(GOOD))
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        result.stderr == "error: saw - for 2 files, wanted it for one: stdin is read once. Give the other as a file\n"
    )


def test_stdin_and_stdout_are_two_files() -> None:
    assert call("snapshot", "-", "--cluster", "-", "--metrics", "off", stdin=json.dumps(GOOD)).exit_code == 0


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
    result = call("mutate", "-", stdin=stdin)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr == said or (said is None and result.stderr.startswith("error: -: neither YAML nor JSON: "))


@pytest.mark.parametrize(
    "arguments", [["mutate"], ["mutate", "-", "-o", "table"], ["nothing"], ["mutate", "-", "--x"]], ids=str
)
def test_wrong_arguments_are_status_2(arguments: list[str]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage" in result.stderr


def test_lint(file: Any) -> None:
    good = file({"profiles": {"default": {}, "quiet": {"shadow": True}}}, name="good.yaml")
    result = call("lint", good)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{good}: good: 2 profiles, hash ")
    bad = file({"gpu": []}, name="bad.yaml")
    result = call("lint", bad)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f'{bad}: line 1: gpu: unknown key; did you mean "gpus"?\n'
    assert call("lint", "-", stdin="gpus: []").exit_code == 0


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
    result = call("lint", path)
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


def test_help_names_every_command_in_order() -> None:
    text = call("--help").stdout
    words = [line.split()[1] for line in text.splitlines() if len(line.split()) > 1]
    assert list(dict.fromkeys([word for word in words if word in COMMANDS])) == list(COMMANDS)
    assert "Exit status" in text


# --- as a process -----------------------------------------------------------------------------------------------------


def test_the_program_itself(tmp_path: Path) -> None:
    """As a process: stdin, stdout, stderr and exit status."""
    command = [sys.executable, "-m", "webhook"]
    text = orjson.dumps(GOOD) + orjson.dumps(CONFLICT)
    done = subprocess.run([*command, "mutate", "-", "-o", "json"], input=text, capture_output=True, check=False)
    assert done.returncode == 1
    assert [json.loads(line)["metadata"]["name"] for line in done.stdout.splitlines()] == ["trainer"]
    assert done.stderr.startswith(b'-: document 2: refused: pod "two": ')
    assert b"\x1b" not in done.stderr, "no colours without a terminal"
