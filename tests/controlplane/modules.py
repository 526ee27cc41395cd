"""Writes go/<minor>/go.mod and go.sum for a release: how a new Kubernetes comes here.

    python -m tests.controlplane modules 1.38.0

Then name it in KUBERNETES of programs.py. Kubernetes' own go.mod says which etcd goes with it, and which modules it keeps
in its staging folder: for whoever imports it, those are released with the same number, as v0.X.Y.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.controlplane.programs import SOURCES
from tests.controlplane.toolchain import ENVIRONMENT, find_go

FILES = ("go.mod", "go.sum")


def write(release: str) -> Path:
    """`release` such as 1.38.0. Returns the folder with the two files. Raises CalledProcessError with what go said."""
    go = find_go("1.26.0")
    folder = SOURCES / ".".join(release.split(".")[:2])
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        answer = _go(go, work, "mod", "download", "-json", f"k8s.io/kubernetes@v{release}")
        (work / "go.mod").write_text(go_mod(release, Path(json.loads(answer)["GoMod"]).read_text()))
        shutil.copyfile(SOURCES / "main.go", work / "main.go")
        _go(go, work, "mod", "tidy")
        folder.mkdir(exist_ok=True)
        for file in FILES:
            shutil.copyfile(work / file, folder / file)
    return folder


def go_mod(release: str, upstream: str) -> str:
    """The go.mod to start from; `upstream` is that of Kubernetes. `go mod tidy` adds the rest."""
    found = {
        name: re.search(rf"^\s*{name} (\S+)", upstream, re.MULTILINE) for name in ("go", r"go\.etcd\.io/etcd/server/v3")
    }
    go, etcd = (match[1] for match in found.values() if match)
    staged = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", upstream, re.MULTILINE)
    return "\n".join(
        [
            f"module gpu-admission/controlplane\n\ngo {go}\n",
            f"require (\n\tgo.etcd.io/etcd/server/v3 {etcd}\n\tk8s.io/kubernetes v{release}\n)\n",
            "replace (",
            *(f"\t{module} => {module} v0.{release.partition('.')[2]}" for module in staged),
            ")\n",
        ]
    )


def _go(go: str, folder: Path, *arguments: str) -> str:
    environment = os.environ | ENVIRONMENT | {"GOFLAGS": "-mod=mod"}
    return subprocess.run(
        [go, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
