"""Controllers that live beside us in clusters, built from their Go modules: `python -m tests.controlplane --others`."""

from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.module import Module

_SHARED, _OLDER, _BATCH = Module("others"), Module("older"), Module("batch")
"""For those that can be compiled of the `k8s.io` modules of the control plane, which takes a fifth of the time; for those that
need older ones; and for those of batch work that are as old, beside YuniKorn, which has parts of kube-scheduler in it. KubeRay,
Karpenter 1.4, Volcano and the training operator have a go.mod each, since they need still older ones."""


@dataclass(frozen=True)
class Other:
    """`package`: of its program, in `module`. `files`: folders of the module with what it needs in a cluster, as the
    kustomization there has it, if there is one. `of`: whose go.mod says the version."""

    module: str
    package: str = ""
    files: tuple[str, ...] = ("config/default",)
    of: Module = _SHARED

    @property
    def version(self) -> str:
        return self.of.version(self.module)


_VOLCANO_FILES = ("config/crd/volcano/bases", "config/crd/jobflow/bases")
_VOLCANO = Module("volcano")
_KARPENTER = ("pkg/apis/crds", "kwok/apis/crds")
OTHERS = {
    "jobset": Other("sigs.k8s.io/jobset"),
    "lws": Other("sigs.k8s.io/lws", "/cmd"),
    "karpenter": Other("sigs.k8s.io/karpenter", "/kwok", _KARPENTER),
    "karpenter-1.4": Other("sigs.k8s.io/karpenter", "/kwok", _KARPENTER, Module("karpenter")),
    "descheduler": Other("sigs.k8s.io/descheduler", "/cmd/descheduler", ()),
    "kueue": Other("sigs.k8s.io/kueue", "/cmd/kueue", of=_OLDER),
    "trainer": Other(
        "github.com/kubeflow/trainer/v2",
        "/cmd/trainer-controller-manager",
        ("manifests/base/crds", "manifests/base/webhook"),
        _OLDER,
    ),
    "training-operator": Other(
        "github.com/kubeflow/training-operator",
        "/cmd/training-operator.v1",
        ("manifests/base/crds",),
        Module("training"),
    ),
    "yunikorn": Other("github.com/apache/yunikorn-k8shim", "/pkg/cmd/shim", (), _BATCH),
    "volcano-controller": Other("volcano.sh/volcano", "/cmd/controller-manager", _VOLCANO_FILES, _VOLCANO),
    "volcano-scheduler": Other("volcano.sh/volcano", "/cmd/scheduler", (), _VOLCANO),
    "mpi-operator": Other("github.com/kubeflow/mpi-operator", "/cmd/mpi-operator", ("manifests/base",), _BATCH),
    "kuberay": Other("github.com/ray-project/kuberay/ray-operator", files=("config/crd",), of=Module("kuberay")),
}


def find_other(name: str) -> Path:
    """Path of its program, built if it is not there; its YAML files are in NAME.files beside it. Raises Unavailable."""
    other = OTHERS[name]
    what = f"{name} {other.version}"
    parts = [folder.removesuffix("/default") for folder in other.files]
    return other.of.find(name, other.module + other.package, what, kept=(other.module, *parts))
