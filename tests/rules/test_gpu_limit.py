"""How many GPUs a container and a pod may ask for."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import TWO_NODES, Case, asking, case, container, sidecar
from tests.controlplane.objects import pod
from webhook.kube.claim_requests import Alternative, ClaimRequest
from webhook.rules.gpu_limit import GpuLimit

PREFIX = "deviceclass.resource.kubernetes.io/"
RESOURCES = {
    "nic": f"{PREFIX}nic",
    "own_nic": "dra.example/nic",
    "mig": f"{PREFIX}mig",
    "h100": f"{PREFIX}h100",
    "own_gpu": "dra.example/gpu",
    "nvidia": f"{PREFIX}gpu.nvidia.com",
}
NIC, OF_GPUS = 'device.driver == "dra.example"', 'device.attributes["gpu.nvidia.com"].type == '
SELECTING = {
    **dict.fromkeys(("nic", "own_nic"), NIC),
    "mig": f'{OF_GPUS}"mig"',
    **dict.fromkeys(("h100", "own_gpu"), f'{OF_GPUS}"gpu"'),
}
CLASSES = replace(TWO_NODES, classes={RESOURCES[key]: expression for key, expression in SELECTING.items()})
RULE = GpuLimit(per_container=4, per_pod=8)
SIZES = GpuLimit(per_container=None, sizes=(8, 4, 2, 1))


def claiming(*requests: ClaimRequest, gpu: int | None = None, **more: Any) -> Case:
    return case(pod(containers=[container(gpu=gpu)]), claimed=requests, **more)


def asks(*names: str, more: tuple[ClaimRequest, ...] = (), **counts: str) -> Case:
    """Containers of these names with resources that DeviceClasses stand for."""
    asked = {RESOURCES[key]: count for key, count in counts.items()}
    made = pod(containers=[container(name, gpu=None, limits=asked) for name in names or ("main",)])
    return case(made, cluster=CLASSES, claimed=more)


ALLOWED = [
    pytest.param(case(pod(gpus=4)), id="as many as a container may have"),
    pytest.param(case(pod(containers=[container("a", gpu=4), container("b", gpu=4)])), id="as many as a pod may have"),
    pytest.param(
        case(pod(containers=[container("a", gpu=4), container("b", gpu=4)], init=[container("setup", gpu=4)])),
        id="an init container reuses the GPUs of the containers after it",
    ),
    pytest.param(case(pod(gpus=0, limits={"nvidia.com/mig-1g.10gb": "7"})), id="slices of GPUs, which are not counted"),
    pytest.param(case(pod(gpus=4), rule=SIZES), id="a size that fills nodes"),
    pytest.param(case(pod(gpus=100), rule=GpuLimit(per_container=None, per_pod=None)), id="no limits set"),
    pytest.param(case(pod(gpus=16), rule=GpuLimit()), id="sixteen, the most there is in one server, by default"),
    pytest.param(claiming(asking(4), asking(4)), id="as many devices as a request and a pod may have"),
    pytest.param(claiming(asking(64, kind="other")), id="devices that are no GPUs"),
    pytest.param(claiming(asking(7, kind="slice")), id="slices by a claim"),
    pytest.param(
        claiming(*[asking(4, kind="")] * 4),
        id="devices of which nobody knows what they are, up to what a request may have",
    ),
    pytest.param(
        claiming(asking(56, kind="slice", others=(Alternative(1, "whole"),))), id="many slices, or else a whole GPU"
    ),
    pytest.param(claiming(asking(64, admin=True)), id="devices that stay free for others"),
    pytest.param(asks(nic="64", own_nic="64"), id="resources of a DeviceClass that is for no GPUs"),
    pytest.param(asks(mig="7"), id="slices by the name of their class"),
    pytest.param(claiming(asking(8), rule=SIZES), id="a size of a claim that fills nodes"),
    pytest.param(
        claiming(asking(3, kind=""), rule=SIZES), id="any size of devices of which nobody knows what they are"
    ),
    pytest.param(claiming(asking(None)), id="all devices, while nobody knows how many a node has"),
    pytest.param(case(pod(gpus="500m")), id="a fraction, which is for another rule to judge"),
]

_FIX = "Ask for fewer, or spread the work over several pods, for example by a Job with parallelism."
_SIZES = "wanted 1, 2, 4 or 8 GPUs. Ask for {}: other sizes leave GPUs on a node that nobody can use."


def in_container(count: int, most: int = 4, end: str = "", name: str = "nvidia.com/gpu") -> list[str]:
    wanted = end or f"wanted at most {most} in a container. {_FIX}"
    return [f'spec.containers[0].resources.limits[{name}]: saw {count} in container "main", {wanted}']


def in_claim(count: object, end: str = f"wanted at most 4 devices in a request. {_FIX}") -> list[str]:
    return [f'spec.resourceClaims[0]: saw {count} in request "gpu" of template "train", {end}']


def in_all(count: int, of: str = "pod") -> list[str]:
    return [f"spec: saw {count} GPUs in the whole {of}, wanted at most 8 in a pod. {_FIX}"]


REFUSED = [
    pytest.param(case(pod(gpus=5)), in_container(5), id="one more than a container may have"),
    pytest.param(case(pod(gpus=9)), in_container(9), id="too many in a container, and so in the pod: reported once"),
    pytest.param(
        case(pod(containers=[container("a", gpu=4), container("b", gpu=4)], init=[sidecar(gpu=1)])),
        in_all(9),
        id="a sidecar adds to the containers",
    ),
    pytest.param(
        case(
            pod(containers=[container("a", gpu=9), container("b", gpu=None, limits={"nvidia.com/mig-1g.10gb": "1"})]),
            rule=GpuLimit(per_container=None, per_pod=8),
        ),
        in_all(9),
        id="only the kinds that are counted",
    ),
    pytest.param(
        case(pod(init=[sidecar("s", gpu=4), sidecar("t", gpu=3), container("setup", gpu=2)])),
        in_all(9),
        id="an init container beside a sidecar needs more than the containers do",
    ),
    pytest.param(
        case(pod(gpus=3), rule=SIZES),
        in_container(3, end=_SIZES.format("2 or 4")),
        id="a size between two that fill nodes",
    ),
    pytest.param(
        case(pod(gpus=12), rule=SIZES), in_container(12, end=_SIZES.format("8")), id="a size above the largest"
    ),
    pytest.param(asks(*"abc", nvidia="4"), in_all(12), id="GPUs of a DeviceClass count for the pod"),
    pytest.param(
        case(pod(gpus=100), rule=GpuLimit()), in_container(100, 16), id="more than any server has, by default"
    ),
    pytest.param(claiming(asking(5)), in_claim(5), id="a claim for more devices than a request may have"),
    pytest.param(
        claiming(asking(1, others=(Alternative(5, "whole"), Alternative(9, "slice")))),
        in_claim(5),
        id="of alternatives the largest",
    ),
    pytest.param(
        asks(own_gpu="5"),
        in_container(5, name="dra.example/gpu"),
        id="a resource that a DeviceClass for GPUs stands for",
    ),
    pytest.param(
        asks(*"ab", h100="3", more=(asking(3),)),
        in_all(9),
        id="GPUs of any DeviceClass count for the pod, beside claims",
    ),
    pytest.param(claiming(asking(None, most=8)), in_claim("all devices of a node, 8"), id="all devices of a node"),
    pytest.param(claiming(asking(4), asking(1), gpu=4), in_all(9), id="claims and resources together"),
    pytest.param(claiming(asking(3), rule=SIZES), in_claim(3, _SIZES.format("2 or 4")), id="a size of a claim"),
    pytest.param(
        case({"metadata": {}, "spec": {"containers": []}}, claimed=[asking(4, claim="")] * 3),
        in_all(12, "claim"),
        id="a claim by itself",
    ),
]
WARNED = [
    pytest.param(claiming(asking(5, kind="")), in_claim(5), id="many devices of which nobody knows what they are"),
]
