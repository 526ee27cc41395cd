"""`make bench`: every benchmark that needs no control plane, or those that are named: `python -m bench reviews choose`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from rich.console import Console

_DATA = Path(__file__).resolve().parent.parent / "tests" / "bench" / "data"
_BENCHMARKS: dict[str, tuple[str, list[str]]] = {
    "reviews": ("what one review costs, beside handlers that decide nothing", []),
    "loop": ("what the program does for one pod, without a server", []),
    "hostile": ("what bodies cost that were made to cost much; Linux, three minutes", []),
    "choose": ("how long the choice of a node takes, up to 65,000 nodes", []),
    "burst": ("what a choice costs while replicas of one owner come in a burst", []),
    "placement": (
        "how good the choices are, on a small trace",
        ["--nodes", str(_DATA / "nodes.csv"), "--pods", str(_DATA / "pods.csv")],
    ),
    "cluster": ("placement on a real control plane, with us and without; ten minutes", []),
    "behaviour": ("whether pods are ever worse off with us, on the real scheduler; half an hour", []),
    "creates": ("what a pod's creation costs more, on a real control plane; three minutes", []),
}
_DEFAULT = ("reviews", "loop", "choose", "burst", "placement")


def main() -> int:
    """Exit status 0 if every benchmark ran."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = "; ".join(f"{name}: {what}" for name, (what, _) in _BENCHMARKS.items())
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    given = parser.parse_args().names or _DEFAULT
    if unknown := [name for name in given if name not in _BENCHMARKS]:
        parser.error(f"saw {', '.join(unknown)}; wanted {', '.join(_BENCHMARKS)}")
    console, status = Console(stderr=True), 0
    for name in given:
        what, options = _BENCHMARKS[name]
        console.rule(f"{name}: {what}")
        status |= subprocess.run([sys.executable, "-m", f"bench.{name}", *options], check=False).returncode
    return min(status, 1)


if __name__ == "__main__":
    sys.exit(main())
