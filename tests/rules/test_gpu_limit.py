"""How many GPUs a container and a pod may ask for."""

from dataclasses import replace
from typing import Any

from tests.builders import TWO_NODES, Case, asking, case, container, pod, sidecar
from webhook.kube.claim_requests import Alternative, ClaimRequest
from webhook.rules.gpu_limit import GpuLimit

PREFIX = "deviceclass.resource.kubernetes.io/"
DEVICE_CLASS = f"{PREFIX}gpu.nvidia.com"
CLASSES = replace(
    TWO_NODES,
    classes={
        f"{PREFIX}nic": "other",
        "dra.example/nic": "other",
        f"{PREFIX}mig": "slice",
        f"{PREFIX}h100": "whole",
        "dra.example/gpu": "whole",
    },
)
RULE = GpuLimit(per_container=4, per_pod=8)
SIZES = GpuLimit(per_container=None, sizes=(8, 4, 2, 1))


def claiming(*requests: ClaimRequest, gpu: int | None = None, **more: Any) -> Case:
    return case(pod(container(gpu=gpu)), claimed=requests, **more)


ALLOWED: dict[str, Case] = {
    "as many as a container may have": case(pod(container(gpu=4))),
    "as many as a pod may have": case(pod(container("a", gpu=4), container("b", gpu=4))),
    "an init container reuses the GPUs of the containers after it": case(
        pod(container("a", gpu=4), container("b", gpu=4), init=[container("setup", gpu=4)])
    ),
    "slices of GPUs, which are not counted": case(pod(container(gpu=None, limits={"nvidia.com/mig-1g.10gb": "7"}))),
    "a size that fills nodes": case(pod(container(gpu=4)), rule=SIZES),
    "no limits set": case(pod(container(gpu=100)), rule=GpuLimit(per_container=None, per_pod=None)),
    "sixteen, the most there is in one server, by default": case(pod(container(gpu=16)), rule=GpuLimit()),
    "as many devices as a request and a pod may have": claiming(asking(4), asking(4)),
    "devices that are no GPUs": claiming(asking(64, kind="other")),
    "slices by a claim": claiming(asking(7, kind="slice")),
    "devices of which nobody knows what they are, up to what a request may have": claiming(*[asking(4, kind="")] * 4),
    "many slices, or else a whole GPU": claiming(asking(56, kind="slice", others=(Alternative(1, "whole"),))),
    "devices that stay free for others": claiming(asking(64, admin=True)),
    "resources of a DeviceClass that is for no GPUs": case(
        pod(container(gpu=None, limits={f"{PREFIX}nic": "64", "dra.example/nic": "64"})), cluster=CLASSES
    ),
    "slices by the name of their class": case(pod(container(gpu=None, limits={f"{PREFIX}mig": "7"})), cluster=CLASSES),
    "a size of a claim that fills nodes": claiming(asking(8), rule=SIZES),
    "any size of devices of which nobody knows what they are": claiming(asking(3, kind=""), rule=SIZES),
    "all devices, while nobody knows how many a node has": claiming(asking(None)),
    "a fraction, which is for another rule to judge": case(pod(container(gpu="500m"))),
}

_FIX = "Ask for fewer, or spread the work over several pods, as a Job with parallelism does."
_CLAIM = 'spec.resourceClaims[0]: saw ? in request "gpu"'
_WHERE = "spec.containers[0].resources.limits[nvidia.com/gpu]"
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "one more than a container may have": (
        case(pod(container(gpu=5))),
        [f'{_WHERE}: saw 5 in container "main", wanted at most 4 in a container. {_FIX}'],
    ),
    "too many in a container, and so in the pod: reported once": (
        case(pod(container(gpu=9))),
        [f'{_WHERE}: saw 9 in container "main", wanted at most 4 in a container. {_FIX}'],
    ),
    "a sidecar adds to the containers": (
        case(pod(container("a", gpu=4), container("b", gpu=4), init=[sidecar(gpu=1)])),
        [f"spec: saw 9 GPUs in the whole pod, wanted at most 8 in a pod. {_FIX}"],
    ),
    "only the kinds that are counted": (
        case(
            pod(container("a", gpu=9), container("b", gpu=None, limits={"nvidia.com/mig-1g.10gb": "1"})),
            rule=GpuLimit(per_container=None, per_pod=8),
        ),
        [f"spec: saw 9 GPUs in the whole pod, wanted at most 8 in a pod. {_FIX}"],
    ),
    "an init container beside a sidecar needs more than the containers do": (
        case(pod(container(gpu=1), init=[sidecar("s", gpu=4), sidecar("t", gpu=3), container("setup", gpu=2)])),
        [f"spec: saw 9 GPUs in the whole pod, wanted at most 8 in a pod. {_FIX}"],
    ),
    "a size between two that fill nodes": (
        case(pod(container(gpu=3)), rule=SIZES),
        [
            f'{_WHERE}: saw 3 in container "main", wanted 1, 2, 4 or 8 GPUs. '
            "Ask for 2 or 4: other sizes leave GPUs on a node that nobody can use."
        ],
    ),
    "a size above the largest": (
        case(pod(container(gpu=12)), rule=SIZES),
        [
            f'{_WHERE}: saw 12 in container "main", wanted 1, 2, 4 or 8 GPUs. '
            "Ask for 8: other sizes leave GPUs on a node that nobody can use."
        ],
    ),
    "GPUs of a DeviceClass count for the pod": (
        case(pod(*[container(name, gpu=None, limits={DEVICE_CLASS: "4"}) for name in "abc"])),
        [f"spec: saw 12 GPUs in the whole pod, wanted at most 8 in a pod. {_FIX}"],
    ),
    "more than any server has, by default": (
        case(pod(container(gpu=100)), rule=GpuLimit()),
        [f'{_WHERE}: saw 100 in container "main", wanted at most 16 in a container. {_FIX}'],
    ),
    "a claim for more devices than a request may have": (
        claiming(asking(5)),
        [f'{_CLAIM} of template "train", wanted at most 4 devices in a request. {_FIX}'.replace("?", "5")],
    ),
    "of alternatives the largest": (
        claiming(asking(1, others=(Alternative(5, "whole"), Alternative(9, "slice")))),
        [f'{_CLAIM} of template "train", wanted at most 4 devices in a request. {_FIX}'.replace("?", "5")],
    ),
    "a resource that a DeviceClass for GPUs stands for": (
        case(pod(container(gpu=None, limits={"dra.example/gpu": "5"})), cluster=CLASSES),
        [
            f'spec.containers[0].resources.limits[dra.example/gpu]: saw 5 in container "main", '
            f"wanted at most 4 in a container. {_FIX}"
        ],
    ),
    "GPUs of any DeviceClass count for the pod, beside claims": (
        case(
            pod(*[container(name, gpu=None, limits={f"{PREFIX}h100": "3"}) for name in "ab"]),
            cluster=CLASSES,
            claimed=(asking(3),),
        ),
        [f"spec: saw 9 GPUs in the whole pod, wanted at most 8 in a pod. {_FIX}"],
    ),
    "all devices of a node": (
        claiming(asking(None, most=8)),
        [
            f'{_CLAIM} of template "train", wanted at most 4 devices in a request. {_FIX}'.replace(
                "?", "all devices of a node, 8"
            )
        ],
    ),
    "claims and resources together": (
        claiming(asking(4), asking(1), gpu=4),
        [f"spec: saw 9 GPUs in the whole pod, wanted at most 8 in a pod. {_FIX}"],
    ),
    "a size of a claim": (
        claiming(asking(3), rule=SIZES),
        [
            f'{_CLAIM} of template "train", wanted 1, 2, 4 or 8 GPUs. '.replace("?", "3")
            + "Ask for 2 or 4: other sizes leave GPUs on a node that nobody can use."
        ],
    ),
    "a claim by itself": (
        case({"metadata": {}, "spec": {"containers": []}}, claimed=[asking(4, claim="")] * 3),
        [f"spec: saw 12 GPUs in the whole claim, wanted at most 8 in a pod. {_FIX}"],
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "many devices of which nobody knows what they are": (
        claiming(asking(5, kind="")),
        [f'{_CLAIM} of template "train", wanted at most 4 devices in a request. {_FIX}'.replace("?", "5")],
    ),
}
