"""python -m tests.controlplane build [--k8s 1.34] | run [--k8s 1.34] [--cluster pools] | modules 1.38.0"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from types import FrameType

from tests.controlplane import clusters, modules
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Failed
from tests.controlplane.programs import KUBERNETES, MAIN, Unavailable, find


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 done; 1 a program of the control plane failed; 2 none can be had, or a wrong argument."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="build the programs if they are nowhere, and print their folder")
    run = commands.add_parser("run", help="start a control plane with simulated nodes, until Ctrl-C")
    for command in (build, run):
        command.add_argument("--k8s", default=MAIN, help=f"{' or '.join(KUBERNETES)}; default %(default)s")
    run.add_argument("--cluster", default="pools", help=f"{', '.join(clusters.NAMES)}; default %(default)s")
    update = commands.add_parser("modules", help="write go.mod and go.sum for another Kubernetes release")
    update.add_argument("release", help="such as 1.38.0")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, interrupted)
    try:
        if given.command == "modules":
            print(modules.write(given.release))
            return 0
        programs = find(given.k8s)
        if given.command == "build":
            print(programs.folder)
            return 0
        clusters.cluster(given.cluster)
        with ControlPlane(programs) as plane:
            nodes = clusters.apply_to(plane.kubeconfig, given.cluster)
            print(
                f"Kubernetes {programs.version} at {plane.server} with {len(nodes)} simulated nodes. In another shell:"
            )
            print(f"\n    export KUBECONFIG={plane.kubeconfig}\n    {programs.path('kubectl')} get nodes\n")
            print("Ctrl-C ends it and removes everything.", flush=True)
            until_interrupted(plane)
    except (Unavailable, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except Failed as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def interrupted(number: int, frame: FrameType | None) -> None:
    """SIGTERM is as Ctrl-C: what was started ends, and nothing is left."""
    raise KeyboardInterrupt


def until_interrupted(plane: ControlPlane) -> None:
    """Waits for Ctrl-C or SIGTERM. Raises Failed if a program of the control plane ends by itself."""
    signal.signal(signal.SIGTERM, interrupted)
    try:
        while True:
            plane.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        print("\nending", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
