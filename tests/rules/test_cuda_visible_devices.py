"""Variables that select GPUs inside a container."""

import pytest

from tests.builders import case, container
from tests.controlplane.objects import pod
from webhook.rules.cuda_visible_devices import CudaVisibleDevices

RULE = CudaVisibleDevices()
CUDA = "CUDA_VISIBLE_DEVICES"

ALLOWED = [
    pytest.param(case(pod()), id="no such variable"),
    pytest.param(case(pod(env={CUDA: "0"})), id="the one GPU there is"),
    pytest.param(case(pod(gpus=2, env={CUDA: "1, 0"})), id="all of two GPUs"),
    pytest.param(case(pod(gpus=0, env={CUDA: ""})), id="no GPU, said aloud"),
    pytest.param(case(pod(gpus=0, env={CUDA: "-1"})), id="no GPU, in another way"),
    pytest.param(
        case(pod(gpus=0, limits={"volcano.sh/vgpu-number": "1"}, env={CUDA: "0"})),
        id="a GPU that the policy does not know",
    ),
    pytest.param(
        case(pod(gpus=0, env={CUDA: "0"}), other_gpus=frozenset(("nvidia.com",))), id="a part of a GPU by annotation"
    ),
    pytest.param(
        case(
            pod(
                containers=[
                    {"name": "main", "resources": {"claims": [{"name": "gpu"}]}, "env": [{"name": CUDA, "value": "3"}]}
                ]
            )
        ),
        id="devices by claim, whose number is not known",
    ),
]


def message(seen: str, index: int = 0) -> list[str]:
    fix = "Remove it, or ask for a GPU in the limits of the container." if "0 GPUs" in seen else "Remove it."
    wanted = "no such variable: a container sees its own GPUs, numbered from 0"
    return [f"spec.containers[0].env[{index}]: saw {seen}, wanted {wanted}. {fix}"]


_REFERENCE = {CUDA: {"configMapKeyRef": {}}}
REFUSED = [
    pytest.param(
        case(pod(env={CUDA: "3"})), message(f'{CUDA}="3" in container "main" with 1 GPU'), id="a GPU that is not there"
    ),
    pytest.param(
        case(pod(gpus=2, env={"A": "b", CUDA: "0"})),
        message(f'{CUDA}="0" in container "main" with 2 GPUs', 1),
        id="one of two",
    ),
    pytest.param(
        case(pod(env={CUDA: "0,1"})), message(f'{CUDA}="0,1" in container "main" with 1 GPU'), id="one GPU too many"
    ),
    pytest.param(
        case(pod(gpus=0, env={"HIP_VISIBLE_DEVICES": "0"})),
        message('HIP_VISIBLE_DEVICES="0" in container "main" with 0 GPUs'),
        id="a GPU in a container that asks for none",
    ),
    pytest.param(
        case(pod(gpus=0, env=_REFERENCE)),
        message(f'{CUDA}=(from a configMapKeyRef) in container "main" with 0 GPUs'),
        id="a reference, without a GPU",
    ),
    pytest.param(
        case(pod(env=_REFERENCE)),
        message(f'{CUDA}=(from a configMapKeyRef) in container "main" with 1 GPU'),
        id="a reference",
    ),
    pytest.param(
        case(pod(containers=[container() | {"env": [{"name": CUDA, "value": 3}]}])),
        message(f'{CUDA}="3" in container "main" with 1 GPU'),
        id="a value that is not text",
    ),
]
