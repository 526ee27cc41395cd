"""Programs of Go modules beside Kubernetes itself: each is built once, and kept in the cache folder.

A folder of go/ names them as tools in its go.mod. Its `k8s.io` modules are those of the control plane, so that most of what is
compiled for one is there for all.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.build import go_build, go_line
from tests.controlplane.programs import SOURCES, cache_folder, locked, remove, say
from tests.controlplane.toolchain import ENVIRONMENT, find_go


@dataclass(frozen=True)
class Module:
    """`name`: of its folder in go/. `recipe`: what else makes its programs what they are."""

    name: str
    recipe: str = ""

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(SOURCES / self.name / file for file in ("go.mod", "go.sum"))

    def version(self, module: str) -> str:
        """Of a module that go.mod asks for, such as v0.11.1."""
        found = re.search(rf"^\s+{re.escape(module)} (v\S+)", self.files[0].read_text(), re.MULTILINE)
        if not found:
            raise ValueError(f"{self.files[0]} asks for no {module}")
        return found[1]

    def find(self, program: str, package: str, what: str, flags: str = "-s -w", kept: tuple[str, ...] = ()) -> Path:
        """Path of the program, built from `package` if it is not there. Raises Unavailable.

        `kept`: a module and folders of it; their YAML files are then in PROGRAM.files beside it.
        """
        folder = cache_folder() / self.name / self._key()
        path = folder / program
        if not os.access(path, os.X_OK):
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder / "lock"):
                if not os.access(path, os.X_OK):  # else another run built it while this one waited
                    self._build(path, package, what, flags, kept)
        return path

    def _key(self) -> str:
        digest = hashlib.sha256(f"{self.recipe} {platform.system()} {platform.machine()}".encode())
        for path in self.files:
            digest.update(path.read_bytes())
        return digest.hexdigest()[:12]

    def _build(self, path: Path, package: str, what: str, flags: str, kept: tuple[str, ...]) -> None:
        """Builds beside the program and renames: what has the name is whole."""
        work = path.with_name(f".{path.name}.{os.getpid()}")
        work.mkdir()
        try:
            for file in self.files:
                shutil.copyfile(file, work / file.name)
            go = find_go(go_line(work / "go.mod"))
            say(f"Building {what} into {path.parent} (once)")
            go_build(go, what, work, flags, work / "program", package)
            if kept:
                _keep(go, work, path.with_name(f"{path.name}.files"), *kept)
            (work / "program").rename(path)
        finally:
            remove(work)


def _keep(go: str, work: Path, folder: Path, module: str, *parts: str) -> None:
    """Copies the YAML files of these parts of a module, which the build has brought."""
    command = [go, "list", "-m", "-f", "{{.Dir}}", module]
    source = Path(subprocess.check_output(command, cwd=work, env=os.environ | ENVIRONMENT, text=True).strip())
    for part in parts:
        for file in sorted((source / part).rglob("*.yaml")):
            target = folder / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
