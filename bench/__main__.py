"""`make bench`: runs the benchmarks that are named, as in `python -m bench reviews choose`; by default the short ones without a
control plane."""

import argparse
import subprocess
import sys
from pathlib import Path

from rich.console import Console

_DATA = Path(__file__).resolve().parent.parent / "tests" / "bench" / "data"
_BENCHMARKS: dict[str, tuple[str, list[str]]] = {
    "reviews": ("CPU time of one review, compared with handlers that decide nothing", []),
    "loop": ("CPU time of both hooks for one pod, without a server", []),
    "hostile": ("time and memory of bodies made to be expensive; Linux, some minutes", []),
    "overload": ("what becomes of calls when there is too much to do; half a minute", []),
    "choose": ("time to choose a node, up to 65,000 nodes", []),
    "placement": (
        "quality of the placement, on a small trace",
        ["--nodes", str(_DATA / "nodes.csv"), "--pods", str(_DATA / "pods.csv")],
    ),
    "cluster": ("placement on a real control plane, with us and without; ten minutes", []),
    "behaviour": ("whether pods are worse off with us, on the real scheduler; half an hour", []),
    "creates": ("time added to a pod's creation, on a real control plane; three minutes", []),
}
"""What each benchmark measures, and its arguments."""
_DEFAULT = ("reviews", "loop", "choose", "placement")


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
