"""`python -m tests.controlplane [--k8s 1.34]` builds the programs, and Helm, if they are nowhere, and prints their folder."""

import argparse
import sys

from tests.controlplane.helm import HELM, find_helm
from tests.controlplane.programs import KUBERNETES, MAIN, Unavailable, find


def main() -> int:
    """Exit status: 0 done; 2 no control plane can be had, or a wrong argument."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    parser.add_argument("--k8s", default=MAIN, help=f"{' or '.join(KUBERNETES)}; default %(default)s")
    try:
        print(find(parser.parse_args().k8s).folder)
        for major in HELM:
            find_helm(major)
    except (Unavailable, ValueError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
