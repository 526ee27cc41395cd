"""Variables that select GPUs inside a container."""

from tests.builders import Case, case, container, pod
from webhook.rules.cuda_visible_devices import CudaVisibleDevices

RULE = CudaVisibleDevices()
CUDA = "CUDA_VISIBLE_DEVICES"

ALLOWED: dict[str, Case] = {
    "no such variable": case(pod()),
    "the one GPU there is": case(pod(container(env={CUDA: "0"}))),
    "all of two GPUs": case(pod(container(gpu=2, env={CUDA: "1, 0"}))),
    "no GPU, said aloud": case(pod(container(gpu=None, env={CUDA: ""}))),
    "no GPU, in another way": case(pod(container(gpu=None, env={CUDA: "-1"}))),
    "devices by claim, whose number is not known": case(
        pod({"name": "main", "resources": {"claims": [{"name": "gpu"}]}, "env": [{"name": CUDA, "value": "3"}]})
    ),
}

_WANTED = "wanted no such variable: a container sees its own GPUs, numbered from 0."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a GPU that is not there": (
        case(pod(container(env={CUDA: "3"}))),
        [f'spec.containers[0].env[0]: saw {CUDA}="3" in container "main" with 1 GPU, {_WANTED} Remove it.'],
    ),
    "one of two": (
        case(pod(container(gpu=2, env={"A": "b", CUDA: "0"}))),
        [f'spec.containers[0].env[1]: saw {CUDA}="0" in container "main" with 2 GPUs, {_WANTED} Remove it.'],
    ),
    "one GPU too many": (
        case(pod(container(env={CUDA: "0,1"}))),
        [f'spec.containers[0].env[0]: saw {CUDA}="0,1" in container "main" with 1 GPU, {_WANTED} Remove it.'],
    ),
    "a GPU in a container that asks for none": (
        case(pod(container(gpu=None, env={"HIP_VISIBLE_DEVICES": "0"}))),
        [
            f'spec.containers[0].env[0]: saw HIP_VISIBLE_DEVICES="0" in container "main" with 0 GPUs, {_WANTED} '
            "Remove it, or ask for a GPU in the limits of the container."
        ],
    ),
    "a reference, without a GPU": (
        case(pod(container(gpu=None, env={CUDA: {"configMapKeyRef": {}}}))),
        [
            f'spec.containers[0].env[0]: saw {CUDA}=(from a configMapKeyRef) in container "main" with 0 GPUs, {_WANTED} '
            "Remove it, or ask for a GPU in the limits of the container."
        ],
    ),
    "a value that is not text": (
        case(pod(container() | {"env": [{"name": CUDA, "value": 3}]})),
        [f'spec.containers[0].env[0]: saw {CUDA}="3" in container "main" with 1 GPU, {_WANTED} Remove it.'],
    ),
    "a reference": (
        case(pod(container(env={CUDA: {"configMapKeyRef": {}}}))),
        [
            f'spec.containers[0].env[0]: saw {CUDA}=(from a configMapKeyRef) in container "main" with 1 GPU, {_WANTED} Remove it.'
        ],
    ),
}
