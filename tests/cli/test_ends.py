"""Exit statuses and messages in unusual cases: a closed pipe, Ctrl-C, an unexpected exception, empty files.

Covers cli.main, cli.terminal.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, call, placed, write
from tests.controlplane.objects import pod
from webhook.cli import main as cli
from webhook.cli import top

BASE = [sys.executable, "-m", "webhook"]


def test_a_closed_pipe_is_not_a_refusal(tmp_path: Path) -> None:
    read, written = os.pipe()
    os.close(read)
    command = [*BASE, "top", "--from", str(write(tmp_path, *CLUSTER))]
    with os.fdopen(written, "wb") as stdout:
        ended = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


def test_ctrl_c_is_not_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(top, "snapshot_of", interrupted)
    assert call("top", "--from", write(tmp_path, *CLUSTER)).exit_code == 128 + signal.SIGINT


def test_an_unexpected_exception_is_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong() -> None:
        raise KeyError("topologyKey")

    monkeypatch.setattr(cli, "app", wrong)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: KeyError: 'topologyKey' (test_ends.py:")
    assert second.startswith("It is a mistake of gpu-admission, or an object is not as kubectl prints it. ")
    monkeypatch.setenv("GPU_ADMISSION_TRACEBACK", "1")
    with pytest.raises(KeyError):
        cli.main()


def test_a_full_disk_is_no_mistake_of_ours(tmp_path: Path) -> None:
    command = [*BASE, "top", "-o", "json", "--from", str(write(tmp_path, *CLUSTER))]
    with Path("/dev/full").open("wb") as stdout:
        ended = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (2, b"error: [Errno 28] No space left on device\n")


def test_a_pod_of_a_file_is_found_in_any_namespace(tmp_path: Path) -> None:
    same = placed(pod("waits", 4), None)
    same["metadata"] |= {"namespace": "other", "uid": "u"}
    assert "team/waits" in call("why", "waits", "--from", write(tmp_path, *CLUSTER)).stdout
    result = call("why", "waits", "--from", write(tmp_path, *CLUSTER, same))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == 'error: "waits" is in 2 namespaces: other, team. Give one: -n\n'
    assert call("why", "wait", "--from", write(tmp_path, *CLUSTER)).stderr == (
        'error: no pod or workload "wait"; did you mean waits?\n'
    )


def test_a_file_that_is_not_a_kubeconfig_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("root:x:0:0\n")
    said = call("top", "--kubeconfig", tmp_path / "config").stderr
    assert (
        said
        == f"error: --kubeconfig {tmp_path}/config: it has not the form of a kubeconfig. kubectl config view shows one\n"
    )
