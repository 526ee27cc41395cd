"""Controllers that live beside us in clusters, built from their Go modules: `python -m tests.controlplane --others`."""

from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.module import Module

MODULE = Module("others")


@dataclass(frozen=True)
class Other:
    """`package`: of its program, in `module`. `files`: folders of the module with what it needs in a cluster."""

    module: str
    package: str = ""
    files: tuple[str, ...] = ("config",)


OTHERS = {
    "jobset": Other("sigs.k8s.io/jobset"),
    "lws": Other("sigs.k8s.io/lws", "/cmd"),
    "karpenter": Other("sigs.k8s.io/karpenter", "/kwok", ("pkg/apis/crds", "kwok/apis/crds")),
    "descheduler": Other("sigs.k8s.io/descheduler", "/cmd/descheduler", ("kubernetes",)),
    "kueue": Other("sigs.k8s.io/kueue", "/cmd/kueue"),
}


def find_other(name: str) -> Path:
    """Path of its program, built if it is not there; its YAML files are in NAME.files beside it. Raises Unavailable."""
    other = OTHERS[name]
    what = f"{name} {MODULE.version(other.module)}"
    return MODULE.find(name, other.module + other.package, what, kept=(other.module, *other.files))
