"""More than one share of a GPU, or more than one slice."""

from dataclasses import replace

import pytest

from tests.builders import POOLS, TWO_NODES, case, container
from tests.controlplane.objects import pod
from webhook.rules.gpu_sharing import GpuSharing

RULE = GpuSharing()
STRATEGY = "nvidia.com/gpu.sharing-strategy"
ALL_SHARED = replace(TWO_NODES, labels={"gpu-a1": {STRATEGY: "time-slicing"}, "gpu-a2": {STRATEGY: "time-slicing"}})
SOME_SHARED = replace(TWO_NODES, labels={"gpu-a1": {STRATEGY: "time-slicing"}, "gpu-a2": {STRATEGY: "none"}})

ALLOWED = [
    pytest.param(case(pod(gpus=0, limits={"nvidia.com/gpu.shared": "1"}), cluster=POOLS), id="one share"),
    pytest.param(case(pod(gpus=2)), id="two whole GPUs"),
    pytest.param(
        case(pod(gpus=2), cluster=ALL_SHARED), id="two GPUs where all nodes share theirs, which is for another rule"
    ),
    pytest.param(case(pod(gpus=2), cluster=SOME_SHARED), id="two whole GPUs where some nodes share theirs"),
    pytest.param(
        case(
            pod(containers=(container(n, gpu=None, limits={"nvidia.com/mig-1g.10gb": "1"}) for n in "ab")),
            cluster=POOLS,
        ),
        id="one slice in each of two containers",
    ),
    pytest.param(
        case(
            pod(gpus=0, limits={"amd.com/gpu": "2"}, nodeSelector={"amd.com/gpu.compute-memory-partition": "cpx_nps4"})
        ),
        id="two partitions of AMD's GPUs, which a program may use together",
    ),
    pytest.param(
        case(
            pod(containers=(container(n, gpu=None, limits={"nvidia.com/gpu.shared": "1"}) for n in "ab")), cluster=POOLS
        ),
        id="one share in each of two containers",
    ),
    pytest.param(
        case(pod(gpus=2, nodeSelector={STRATEGY: "none"}), cluster=ALL_SHARED),
        id="two GPUs of nodes that are chosen for not sharing",
    ),
    pytest.param(case(pod(gpus=2), cluster=ALL_SHARED), id="two GPUs, and nobody can tell which nodes they are on"),
    pytest.param(case(pod(gpus=0, limits={"amd.com/gpu": "2"}), cluster=ALL_SHARED), id="another vendor"),
]

_END = 'in container "main", wanted 1: a second share is no second GPU. Ask for 1, or for whole GPUs.'
_SLICES = "spec.containers[0].resources.limits"
_OF_SLICES = (
    ', which are slices of GPUs, in container "main", wanted 1: a program uses one slice only. '
    "Ask for one slice, of the size that it needs, or for whole GPUs."
)
_WHERE = "spec.containers[0].resources.limits[nvidia.com/gpu]"
REFUSED = [
    pytest.param(
        case(pod(gpus=2, nodeSelector={STRATEGY: "mps"})),
        [f"{_WHERE}: saw 2 shares of GPUs {_END}"],
        id="two shares of nodes with MPS, whose daemon refuses them",
    ),
    pytest.param(
        case(pod(gpus=2, nodeSelector={"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"})),
        [f"{_WHERE}: saw 2 shares of GPUs {_END}"],
        id="two shares of nodes of GKE with time-sharing, whose device plugin refuses them",
    ),
]
WARNED = [
    pytest.param(
        case(pod(gpus=0, limits={"nvidia.com/gpu.shared": "2"}), cluster=POOLS),
        [f"spec.containers[0].resources.limits[nvidia.com/gpu.shared]: saw 2 shares of GPUs {_END}"],
        id="two shares by name",
    ),
    pytest.param(
        case(pod(gpus=2, nodeSelector={"cloud.google.com/gke-max-shared-clients-per-gpu": "8"})),
        [f"{_WHERE}: saw 2 shares of GPUs {_END}"],
        id="two GPUs of nodes that GKE lets pods share",
    ),
    pytest.param(
        case(pod(gpus=2, nodeSelector={"cloud.google.com/gke-gpu-sharing-strategy": "mps"})),
        [f"{_WHERE}: saw 2 shares of GPUs {_END}"],
        id="two GPUs of nodes of GKE with MPS, where a node with one GPU gives two shares",
    ),
    pytest.param(
        case(pod(gpus=0, limits={"nvidia.com/mig-1g.10gb": "2"}), cluster=POOLS),
        [f"{_SLICES}[nvidia.com/mig-1g.10gb]: saw 2 nvidia.com/mig-1g.10gb{_OF_SLICES}"],
        id="two slices of one size",
    ),
    pytest.param(
        case(pod(gpus=0, limits={"nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-2g.20gb": "1"}), cluster=POOLS),
        [f"{_SLICES}[nvidia.com/mig-1g.10gb]: saw 1 nvidia.com/mig-1g.10gb, 1 nvidia.com/mig-2g.20gb{_OF_SLICES}"],
        id="slices of two sizes",
    ),
    pytest.param(
        case(pod(gpus=2, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"})),
        [f"{_WHERE}: saw 2 nvidia.com/gpu{_OF_SLICES}"],
        id="two GPUs of nodes on which each is a slice",
    ),
    pytest.param(
        case(pod(gpus=2, nodeSelector={"cloud.google.com/gke-gpu-partition-size": "1g.5gb"})),
        [f"{_WHERE}: saw 2 nvidia.com/gpu{_OF_SLICES}"],
        id="two GPUs of nodes that GKE cuts into slices",
    ),
    pytest.param(
        case(pod(gpus=2, nodeSelector={"nvidia.com/gpu.product": "NVIDIA-L4-SHARED"})),
        [f"{_WHERE}: saw 2 shares of GPUs {_END}"],
        id="two GPUs of a model that is shared",
    ),
]
