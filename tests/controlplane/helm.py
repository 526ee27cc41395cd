"""Helm, built from its Go modules and kept in the cache folder: 4, which applies a chart on the server, and 3, which does not."""

import os
import sys

from tests.controlplane.module import Module
from tests.controlplane.programs import KUBERNETES, MAIN

HELM = {"4": "4.3.1", "3": "3.22.0"}  # major -> release, as in go/helm/go.mod
MODULE = Module("helm", str(HELM))
_CAPABILITIES = "helm.sh/helm/v3/pkg/chartutil.k8sVersion"
"""What `helm template` of Helm 3 takes for the version of the cluster. Helm 4 takes that of its client."""


def find_helm(major: str = "4") -> str:
    """Path of the program, built if it is not there: the second takes seconds, since both share a module. Raises Unavailable."""
    _, minor, _ = KUBERNETES[MAIN].split(".")
    values = {f"helm.sh/helm/v{major}/internal/version.version": f"v{HELM[major]}"}
    values |= {f"{_CAPABILITIES}Major": "1", f"{_CAPABILITIES}Minor": minor} if major == "3" else {}
    flags = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])
    return str(MODULE.find(f"helm{major}", f"helm.sh/helm/v{major}/cmd/helm", f"Helm {HELM[major]}", flags))


if __name__ == "__main__":
    os.execv(find_helm(), ["helm", *sys.argv[1:]])
