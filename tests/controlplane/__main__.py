"""`python -m tests.controlplane [--k8s 1.34] [--others jobset …]` builds the programs, and Helm, if they are nowhere, and
prints their folder. `--others`: other controllers too, those that are named or all."""

import argparse
import sys

from tests.controlplane.helm import HELM, find_helm
from tests.controlplane.others import OTHERS, find_other
from tests.controlplane.programs import KUBERNETES, MAIN, Unavailable, find


def main() -> int:
    """Exit status: 0 done; 2 no control plane can be had, or a wrong argument."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    parser.add_argument("--k8s", default=MAIN, help=f"{' or '.join(KUBERNETES)}; default %(default)s")
    parser.add_argument("--others", nargs="*", choices=OTHERS, metavar="NAME", help=f"{', '.join(OTHERS)}; default all")
    asked = parser.parse_args()
    others = asked.others if asked.others != [] else OTHERS
    try:
        print(find(asked.k8s).folder)
        for major in HELM:
            find_helm(major)
        for name in others or ():
            find_other(name)
    except (Unavailable, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
