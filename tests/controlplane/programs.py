"""Where the programs of a control plane come from.

A cache folder, keyed by the version and by a hash of everything that goes into the build; else a build from Go modules, once.

A new release: copy the last folder in go/, change `k8s.io/kubernetes`, its staging modules and etcd to what the go.mod of that
release says, run `go mod tidy` with main.go beside it, and name it in KUBERNETES.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "go"
KUBERNETES = {"1.37": "1.37.1", "1.34": "1.34.2"}  # minor -> release; the first is the main one, the last the oldest
KWOK = "0.8.0"
MAIN = next(iter(KUBERNETES))
MUTATES = os.environ.get("K8S", MAIN) != "1.34"
"""MutatingAdmissionPolicy is v1 from Kubernetes 1.36 on."""
SERVES_EXTENDED_RESOURCES = os.environ.get("K8S", MAIN) != "1.34"
"""By DRA, for pods that name a resource of a DeviceClass: behind a feature gate before Kubernetes 1.36."""
MISSES_ANTI_AFFINITY = os.environ.get("K8S", MAIN) == "1.34"
"""Its scheduler does not notice that a pod went whose anti-affinity kept others away: these are tried again within five minutes,
or when they are created again (kubernetes/kubernetes#134393)."""
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
RECIPE = 1  # raise it when build.py builds something else from the same sources
NO_CONTROL_PLANE = "no control plane"

Builder = Callable[[str, Path], None]


class Unavailable(Exception):
    """No control plane can be had here. `reason`: what was seen; `remedy`: how to get one."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{NO_CONTROL_PLANE}: {reason}. To get one: {remedy}")
        self.reason = reason
        self.remedy = remedy


@dataclass(frozen=True)
class Programs:
    """A folder with all of NAMES. `version` is the Kubernetes release, such as 1.37.1."""

    folder: Path
    version: str

    def path(self, name: str) -> str:
        return str(self.folder / name)


def find(version: str = MAIN, build: Builder | None = None) -> Programs:
    """The programs of Kubernetes `version` (1.37, or 1.37.1), built if they are nowhere.

    `build(minor, folder)` fills the folder; the default is build.build. Raises Unavailable.
    """
    minor = minor_of(version)
    return _in_cache(minor, KUBERNETES[minor], build or _build)


def minor_of(version: str) -> str:
    """1.37.1 or 1.37 -> 1.37. Raises ValueError for a version that is not in KUBERNETES."""
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    if minor not in KUBERNETES:
        raise ValueError(f"Kubernetes {version!r} was asked for; wanted one of {', '.join(KUBERNETES)} (K8S=…)")
    return minor


def say(line: str) -> None:
    """One line for the person who waits: on stderr, which is never parsed."""
    print(line, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """Where builds are kept: GPU_ADMISSION_CACHE, or gpu-admission in the user's cache folder."""
    if named := os.environ.get("GPU_ADMISSION_CACHE"):
        return Path(named).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "gpu-admission"


def sources(minor: str) -> dict[str, Path]:
    """What goes into the build, by its path under the build folder."""
    return {
        "main.go": SOURCES / "main.go",
        **{file: SOURCES / minor / file for file in ("go.mod", "go.sum")},
        **{f"kwok/{file}": SOURCES / "kwok" / file for file in ("go.mod", "go.sum")},
    }


def key(minor: str) -> str:
    """Names the cache folder of a version: another source, recipe or machine gives another name."""
    digest = hashlib.sha256(f"{RECIPE} {platform.system()} {platform.machine()}".encode())
    for name, path in sources(minor).items():
        digest.update(f"\0{name}\0".encode() + path.read_bytes())
    return f"{KUBERNETES[minor]}-{digest.hexdigest()[:12]}"


def _in_cache(minor: str, release: str, build: Builder) -> Programs:
    parent = cache_folder() / "controlplane"
    folder = parent / key(minor)
    if not missing(folder):
        return Programs(folder, release)
    parent.mkdir(parents=True, exist_ok=True)
    with locked(parent / f"{folder.name}.lock"):
        if missing(folder):  # else another run built it while this one waited
            if folder.exists():
                say(f"{folder} is broken: it is built again")
            _build_into(folder, minor, build)
    return Programs(folder, release)


def _build_into(folder: Path, minor: str, build: Builder) -> None:
    """Builds beside `folder` and renames: what has the name is whole. Leaves nothing behind when it fails."""
    for old in folder.parent.glob(f".{folder.name}.*"):  # of a run that was killed; we hold the lock
        remove(old)
    new = folder.parent / f".{folder.name}.{os.getpid()}"
    try:
        new.mkdir()
        build(minor, new)
        if lacking := missing(new):
            raise RuntimeError(f"the build of Kubernetes {minor} made no {', '.join(lacking)} in {new}")
        remove(folder)
        new.rename(folder)
    finally:
        remove(new)


def missing(folder: Path) -> list[str]:
    """The programs that a folder has not."""
    return [name for name in NAMES if not os.access(folder / name, os.X_OK)]


def remove(path: Path) -> None:
    """Removes a folder with all it holds, or a file; nothing there is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock file: two runs at once build once. The lock goes with the process, however it ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another run builds the same (it holds {path}): waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(minor: str, folder: Path) -> None:
    from tests.controlplane.build import build  # only whoever builds needs it

    build(minor, folder)
