"""The CustomResourceDefinitions of others whose kinds our manifests use, from the Go modules that carry them."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.controlplane.toolchain import ENVIRONMENT, find_go
from tests.manifests.files import Json, documents


class Module(NamedTuple):
    """A version of a module with the checksum that go.sum would have, and where its definitions are."""

    path: str
    version: str
    sum: str
    folder: str
    files: tuple[str, ...]


MODULES = {
    "monitoring": Module(
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        "example/prometheus-operator-crd",
        ("monitoring.coreos.com_podmonitors.yaml", "monitoring.coreos.com_prometheusrules.yaml"),
    ),
    "cert-manager": Module(
        "github.com/cert-manager/cert-manager",
        "v1.21.2",
        "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        "deploy/crds",
        ("cert-manager.io_certificates.yaml", "cert-manager.io_issuers.yaml"),
    ),
}
"""By the component of manifests/ that needs them."""


def definitions(component: str) -> list[Json]:
    """Raises AssertionError with what go said, or if the module is not the one that is known."""
    module = MODULES[component]
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            [find_go("1.26.0"), "mod", "download", "-json", f"{module.path}@{module.version}"],
            cwd=folder,
            env=os.environ | ENVIRONMENT | {"GOFLAGS": "-mod=mod"},
            capture_output=True,
            text=True,
            check=False,
        )
    found = json.loads(answer.stdout or "{}")
    assert found.get("Sum") == module.sum, f"saw {found or answer.stderr}, wanted {module}"
    where = Path(found["Dir"]) / module.folder
    return [document for name in module.files for document in documents(where / name)]
