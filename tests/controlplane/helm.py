"""Helm, built from its Go modules and kept in the cache folder: 4, which applies a chart on the server, and 3, which does not."""

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path

from tests.controlplane.build import go_build, go_line
from tests.controlplane.programs import KUBERNETES, MAIN, SOURCES, cache_folder, locked, remove, say
from tests.controlplane.toolchain import find_go

HELM = {"4": "4.3.1", "3": "3.22.0"}  # major -> release, as in go/helm/go.mod
FILES = tuple(SOURCES / "helm" / name for name in ("go.mod", "go.sum"))
_CAPABILITIES = "helm.sh/helm/v3/pkg/chartutil.k8sVersion"
"""What `helm template` of Helm 3 takes for the version of the cluster. Helm 4 takes that of its client."""


def find_helm(major: str = "4") -> str:
    """Path of the program, built if it is not there: the second takes seconds, since both share a module. Raises Unavailable."""
    folder = cache_folder() / "helm" / _key()
    program = folder / f"helm{major}"
    if not os.access(program, os.X_OK):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock"):
            if not os.access(program, os.X_OK):  # else another run built it while this one waited
                _build(major, program)
    return str(program)


def _key() -> str:
    digest = hashlib.sha256(f"{HELM} {platform.system()} {platform.machine()}".encode())
    for path in FILES:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _build(major: str, program: Path) -> None:
    """Builds beside the program and renames: what has the name is whole."""
    work = program.with_name(f".{program.name}.{os.getpid()}")
    work.mkdir()
    try:
        for path in FILES:
            shutil.copyfile(path, work / path.name)
        go = find_go(go_line(work / "go.mod"))
        say(f"Building Helm {HELM[major]} into {program.parent} (once)")
        _, minor, _ = KUBERNETES[MAIN].split(".")
        values = {f"helm.sh/helm/v{major}/internal/version.version": f"v{HELM[major]}"}
        values |= {f"{_CAPABILITIES}Major": "1", f"{_CAPABILITIES}Minor": minor} if major == "3" else {}
        flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])
        go_build(go, f"Helm {HELM[major]}", work, flags, work / "helm", f"helm.sh/helm/v{major}/cmd/helm")
        (work / "helm").rename(program)
    finally:
        remove(work)


if __name__ == "__main__":
    os.execv(find_helm(), ["helm", *sys.argv[1:]])
