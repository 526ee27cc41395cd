"""Builds the programs from Go modules: one program that is Kubernetes and etcd by the name it is called with, and kwok.

The committed go.mod and go.sum fix every byte that goes in.
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from tests.controlplane.programs import KUBERNETES, KWOK, NAMES, Unavailable, remove, say, sources
from tests.controlplane.toolchain import ENVIRONMENT, find_go

VERSION_PACKAGE = "k8s.io/component-base/version"


def build(minor: str, folder: Path) -> None:
    """Fills `folder` with the programs. `minor`: a key of KUBERNETES. Raises Unavailable."""
    release = KUBERNETES[minor]
    work = folder / ".build"
    for name, path in sources(minor).items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, work / name)
    go = find_go(max((go_line(work / name) for name in ("go.mod", "kwok/go.mod")), key=_numbers))
    say(f"Building a Kubernetes {release} control plane into {folder.parent} (once; 5 to 8 minutes on two cores)")
    try:
        go_build(go, f"Kubernetes {release}", work, ldflags(release), folder / "controlplane", ".")
        go_build(go, f"kwok {KWOK}", work / "kwok", "-s -w", folder / "kwok", "sigs.k8s.io/kwok/cmd/kwok")
    finally:
        remove(work)
    for name in NAMES:
        if name != "kwok":
            (folder / name).symlink_to("controlplane")


def ldflags(release: str) -> str:
    """Without the version the API server says v0.0.0, and its feature gates follow that."""
    major, minor, _ = release.split(".")
    values = {"gitVersion": f"v{release}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in values.items())])


def go_line(go_mod: Path) -> str:
    """The Go version that a go.mod asks for."""
    found = re.search(r"^go (\S+)$", go_mod.read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f"{go_mod} has no `go` line: run `go mod tidy` there")
    return found[1]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def go_build(go: str, what: str, module: Path, flags: str, output: Path, package: str) -> None:
    """Builds `package` of the module in folder `module`. Raises Unavailable with the last lines of `go`."""
    began = time.monotonic()
    command = [go, "build", "-ldflags", flags, "-o", str(output), package]
    answer = subprocess.run(
        command, cwd=module, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        seen = "\n    ".join(answer.stderr.splitlines()[-15:])
        raise Unavailable(
            f"the build of {what} failed with\n    {seen}\n",
            "give this machine a Go module proxy (GOPROXY) or a network once",
        )
    say(f"{what}: built in {time.monotonic() - began:.0f} s")
