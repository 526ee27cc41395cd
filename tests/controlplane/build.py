"""Builds the programs from Go modules: one program that is Kubernetes and etcd by the name it is called with, and kwok.

The committed go.mod and go.sum fix every byte that goes in. Progress is told on stderr, once.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

from tests.controlplane.programs import KUBERNETES, KWOK, NAMES, Unavailable, remove, say, sources
from tests.controlplane.toolchain import ENVIRONMENT, find_go

VERSION_PACKAGE = "k8s.io/component-base/version"
OFFLINE = re.compile(r"dial tcp|no such host|connection refused|i/o timeout|TLS handshake|proxyconnect|lookup .* on")


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
        step = _Steps(go)
        step.run(f"Kubernetes {release}", work, ldflags(release), str(folder / "controlplane"), ".")
        step.run(f"kwok {KWOK}", work / "kwok", "-s -w", str(folder / "kwok"), "sigs.k8s.io/kwok/cmd/kwok")
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


class _Steps:
    """Runs `go build` once and again, and tells how far it is."""

    def __init__(self, go: str) -> None:
        self.go = go
        self.terminal = sys.stderr.isatty()
        self.colour = self.terminal and "NO_COLOR" not in os.environ

    def run(self, what: str, module: Path, flags: str, output: str, package: str) -> None:
        """Builds `package` of the module in folder `module`. Raises Unavailable with the last lines of `go`."""
        began = told = time.monotonic()
        process = subprocess.Popen(
            [self.go, "build", "-v", "-ldflags", flags, "-o", output, package],
            cwd=module,
            env=os.environ | ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
        reader.start()
        last: deque[str] = deque(maxlen=15)
        packages = 0
        try:
            while reader.is_alive() or not lines.empty():
                try:
                    last.append(lines.get(timeout=1))
                    packages += not last[-1].startswith("go: ")
                except queue.Empty:
                    pass
                if time.monotonic() - told >= (1 if self.terminal else 30):
                    told = time.monotonic()
                    self._tell(f"  {what}: {packages} packages, {told - began:.0f} s", "\r" if self.terminal else "\n")
            status = process.wait()
        finally:
            process.kill()
            process.wait()
        if status != 0:
            self._fail(what, list(last))
        mark = "\033[32m✓\033[0m" if self.colour else "✓"
        self._tell(f"{mark} {what}: {time.monotonic() - began:.0f} s", "\n")

    def _tell(self, line: str, end: str) -> None:
        print(f"\r\033[K{line}" if self.terminal else line, end=end, file=sys.stderr, flush=True)

    def _fail(self, what: str, last: list[str]) -> None:
        seen = "\n    ".join(line.rstrip() for line in last)
        remedy = "name a folder with the programs in KUBEBUILDER_ASSETS"
        if any(OFFLINE.search(line) for line in last):
            remedy = f"give this machine a Go module proxy (GOPROXY) or a network once; or {remedy}"
        raise Unavailable(f"the build of {what} failed with\n    {seen}\n", remedy)


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            lines.put(line)
