"""How many GPUs a container and a pod may ask for."""

from dataclasses import replace
from typing import Any

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


ALLOWED: dict[str, Case] = {
    "as many as a container may have": case(pod(gpus=4)),
    "as many as a pod may have": case(pod(containers=[container("a", gpu=4), container("b", gpu=4)])),
    "an init container reuses the GPUs of the containers after it": case(
        pod(containers=[container("a", gpu=4), container("b", gpu=4)], init=[container("setup", gpu=4)])
    ),
    "slices of GPUs, which are not counted": case(pod(gpus=0, limits={"nvidia.com/mig-1g.10gb": "7"})),
    "a size that fills nodes": case(pod(gpus=4), rule=SIZES),
    "no limits set": case(pod(gpus=100), rule=GpuLimit(per_container=None, per_pod=None)),
    "sixteen, the most there is in one server, by default": case(pod(gpus=16), rule=GpuLimit()),
    "as many devices as a request and a pod may have": claiming(asking(4), asking(4)),
    "devices that are no GPUs": claiming(asking(64, kind="other")),
    "slices by a claim": claiming(asking(7, kind="slice")),
    "devices of which nobody knows what they are, up to what a request may have": claiming(*[asking(4, kind="")] * 4),
    "many slices, or else a whole GPU": claiming(asking(56, kind="slice", others=(Alternative(1, "whole"),))),
    "devices that stay free for others": claiming(asking(64, admin=True)),
    "resources of a DeviceClass that is for no GPUs": asks(nic="64", own_nic="64"),
    "slices by the name of their class": asks(mig="7"),
    "a size of a claim that fills nodes": claiming(asking(8), rule=SIZES),
    "any size of devices of which nobody knows what they are": claiming(asking(3, kind=""), rule=SIZES),
    "all devices, while nobody knows how many a node has": claiming(asking(None)),
    "a fraction, which is for another rule to judge": case(pod(gpus="500m")),
}

_FIX = "Ask for fewer, or spread the work over several pods, for example by a Job with parallelism."
_SIZES = "wanted 1, 2, 4 or 8 GPUs. Ask for {}: other sizes leave GPUs on a node that nobody can use."


def in_container(count: int, most: int = 4, end: str = "", name: str = "nvidia.com/gpu") -> list[str]:
    wanted = end or f"wanted at most {most} in a container. {_FIX}"
    return [f'spec.containers[0].resources.limits[{name}]: saw {count} in container "main", {wanted}']


def in_claim(count: object, end: str = f"wanted at most 4 devices in a request. {_FIX}") -> list[str]:
    return [f'spec.resourceClaims[0]: saw {count} in request "gpu" of template "train", {end}']


def in_all(count: int, of: str = "pod") -> list[str]:
    return [f"spec: saw {count} GPUs in the whole {of}, wanted at most 8 in a pod. {_FIX}"]


REFUSED: dict[str, tuple[Case, list[str]]] = {
    "one more than a container may have": (case(pod(gpus=5)), in_container(5)),
    "too many in a container, and so in the pod: reported once": (case(pod(gpus=9)), in_container(9)),
    "a sidecar adds to the containers": (
        case(pod(containers=[container("a", gpu=4), container("b", gpu=4)], init=[sidecar(gpu=1)])),
        in_all(9),
    ),
    "only the kinds that are counted": (
        case(
            pod(containers=[container("a", gpu=9), container("b", gpu=None, limits={"nvidia.com/mig-1g.10gb": "1"})]),
            rule=GpuLimit(per_container=None, per_pod=8),
        ),
        in_all(9),
    ),
    "an init container beside a sidecar needs more than the containers do": (
        case(pod(init=[sidecar("s", gpu=4), sidecar("t", gpu=3), container("setup", gpu=2)])),
        in_all(9),
    ),
    "a size between two that fill nodes": (case(pod(gpus=3), rule=SIZES), in_container(3, end=_SIZES.format("2 or 4"))),
    "a size above the largest": (case(pod(gpus=12), rule=SIZES), in_container(12, end=_SIZES.format("8"))),
    "GPUs of a DeviceClass count for the pod": (asks(*"abc", nvidia="4"), in_all(12)),
    "more than any server has, by default": (case(pod(gpus=100), rule=GpuLimit()), in_container(100, 16)),
    "a claim for more devices than a request may have": (claiming(asking(5)), in_claim(5)),
    "of alternatives the largest": (
        claiming(asking(1, others=(Alternative(5, "whole"), Alternative(9, "slice")))),
        in_claim(5),
    ),
    "a resource that a DeviceClass for GPUs stands for": (asks(own_gpu="5"), in_container(5, name="dra.example/gpu")),
    "GPUs of any DeviceClass count for the pod, beside claims": (asks(*"ab", h100="3", more=(asking(3),)), in_all(9)),
    "all devices of a node": (claiming(asking(None, most=8)), in_claim("all devices of a node, 8")),
    "claims and resources together": (claiming(asking(4), asking(1), gpu=4), in_all(9)),
    "a size of a claim": (claiming(asking(3), rule=SIZES), in_claim(3, _SIZES.format("2 or 4"))),
    "a claim by itself": (
        case({"metadata": {}, "spec": {"containers": []}}, claimed=[asking(4, claim="")] * 3),
        in_all(12, "claim"),
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "many devices of which nobody knows what they are": (claiming(asking(5, kind="")), in_claim(5))
}
