"""python -m tests.controlplane build [--k8s 1.34] | modules 1.38.0

`build` builds the programs, and Helm, if they are nowhere, and prints their folder.
`modules` writes go.mod and go.sum for another release.
"""

import argparse
import sys

from tests.controlplane import modules
from tests.controlplane.helm import HELM, find_helm
from tests.controlplane.programs import KUBERNETES, MAIN, Unavailable, find


def main() -> int:
    """Exit status: 0 done; 2 no control plane can be had, or a wrong argument."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build")
    build.add_argument("--k8s", default=MAIN, help=f"{' or '.join(KUBERNETES)}; default %(default)s")
    commands.add_parser("modules").add_argument("release", help="such as 1.38.0")
    given = parser.parse_args()
    try:
        if given.command == "modules":
            print(modules.write(given.release))
        else:
            print(find(given.k8s).folder)
            for major in HELM:
                find_helm(major)
    except (Unavailable, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
