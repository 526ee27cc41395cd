"""Variables that select GPUs inside a container."""

from tests.builders import Case, case, container
from tests.controlplane.objects import pod
from webhook.rules.cuda_visible_devices import CudaVisibleDevices

RULE = CudaVisibleDevices()
CUDA = "CUDA_VISIBLE_DEVICES"

ALLOWED: dict[str, Case] = {
    "no such variable": case(pod()),
    "the one GPU there is": case(pod(env={CUDA: "0"})),
    "all of two GPUs": case(pod(gpus=2, env={CUDA: "1, 0"})),
    "no GPU, said aloud": case(pod(gpus=0, env={CUDA: ""})),
    "no GPU, in another way": case(pod(gpus=0, env={CUDA: "-1"})),
    "a GPU that the policy does not know": case(pod(gpus=0, limits={"volcano.sh/vgpu-number": "1"}, env={CUDA: "0"})),
    "a part of a GPU by annotation": case(pod(gpus=0, env={CUDA: "0"}), other_gpus=frozenset(("nvidia.com",))),
    "devices by claim, whose number is not known": case(
        pod(
            containers=[
                {"name": "main", "resources": {"claims": [{"name": "gpu"}]}, "env": [{"name": CUDA, "value": "3"}]}
            ]
        )
    ),
}


def message(seen: str, index: int = 0) -> list[str]:
    fix = "Remove it, or ask for a GPU in the limits of the container." if "0 GPUs" in seen else "Remove it."
    wanted = "no such variable: a container sees its own GPUs, numbered from 0"
    return [f"spec.containers[0].env[{index}]: saw {seen}, wanted {wanted}. {fix}"]


_REFERENCE = {CUDA: {"configMapKeyRef": {}}}
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a GPU that is not there": (case(pod(env={CUDA: "3"})), message(f'{CUDA}="3" in container "main" with 1 GPU')),
    "one of two": (
        case(pod(gpus=2, env={"A": "b", CUDA: "0"})),
        message(f'{CUDA}="0" in container "main" with 2 GPUs', 1),
    ),
    "one GPU too many": (case(pod(env={CUDA: "0,1"})), message(f'{CUDA}="0,1" in container "main" with 1 GPU')),
    "a GPU in a container that asks for none": (
        case(pod(gpus=0, env={"HIP_VISIBLE_DEVICES": "0"})),
        message('HIP_VISIBLE_DEVICES="0" in container "main" with 0 GPUs'),
    ),
    "a reference, without a GPU": (
        case(pod(gpus=0, env=_REFERENCE)),
        message(f'{CUDA}=(from a configMapKeyRef) in container "main" with 0 GPUs'),
    ),
    "a reference": (
        case(pod(env=_REFERENCE)),
        message(f'{CUDA}=(from a configMapKeyRef) in container "main" with 1 GPU'),
    ),
    "a value that is not text": (
        case(pod(containers=[container() | {"env": [{"name": CUDA, "value": 3}]}])),
        message(f'{CUDA}="3" in container "main" with 1 GPU'),
    ),
}
