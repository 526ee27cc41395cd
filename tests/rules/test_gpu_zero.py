"""Containers that ask for 0 GPUs."""

from tests.builders import Case, case, container, pod
from webhook.rules.gpu_zero import GpuZero

RULE = GpuZero()
VISIBLE = "NVIDIA_VISIBLE_DEVICES"

ALLOWED: dict[str, Case] = {
    "one GPU": case(pod()),
    "no GPU line": case(pod(container(gpu=None))),
    "none of one vendor and one of another": case(pod(container(limits={"amd.com/gpu": "0"}))),
    "a quantity that is none": case(pod(container(gpu="zero"))),
    "no CPU": case(pod(container(gpu=None, limits={"cpu": "0"}))),
}

_WHERE = "resources.limits[nvidia.com/gpu]"
_FIX = "Ask for 1, or remove the line and set NVIDIA_VISIBLE_DEVICES to void."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "zero": (
        case(pod(container(gpu=0))),
        [
            f'spec.containers[0].{_WHERE}: saw 0 GPUs in container "main", wanted at least 1, or no such line: with 0 nothing hides the node\'s GPUs. {_FIX}'
        ],
    ),
    "zero in another spelling, in an init container": (
        case(pod(init=[container("setup", gpu="0m")])),
        [
            f'spec.initContainers[0].{_WHERE}: saw 0 GPUs in container "setup", wanted at least 1, or no such line: with 0 nothing hides the node\'s GPUs. {_FIX}'
        ],
    ),
    "zero beside a claim, which may be of any device": (
        case(pod({"name": "main", "resources": {"limits": {"nvidia.com/gpu": "0"}, "claims": [{"name": "gpu"}]}})),
        [
            f'spec.containers[0].{_WHERE}: saw 0 GPUs in container "main", wanted at least 1, or no such line: with 0 nothing hides the node\'s GPUs. {_FIX}'
        ],
    ),
    "zero, and the last of two variables is all": (
        case(pod(container(gpu=0) | {"env": [{"name": VISIBLE, "value": v} for v in ("void", "all")]})),
        [
            f'spec.containers[0].{_WHERE}: saw 0 GPUs in container "main", wanted at least 1, or no such line: with 0 nothing hides the node\'s GPUs. {_FIX}'
        ],
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "zero, and the GPUs of the node are hidden": (
        case(pod(container(gpu=0, env={VISIBLE: "void"}))),
        [
            f'spec.containers[0].{_WHERE}: saw 0 GPUs in container "main", wanted at least 1, or no such line. Remove the line.'
        ],
    )
}
