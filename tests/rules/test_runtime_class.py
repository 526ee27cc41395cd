"""Which pods may use a GPU runtime."""

from typing import Any

import pytest

from tests.builders import Case, ClusterFacts, case, container
from tests.controlplane.objects import pod
from webhook.rules.runtime_class import RuntimeClass

RULE = RuntimeClass()


def under(
    runtime: str, gpu: int | None = None, limits: dict[str, str] | None = None, handler: str = "", **more: Any
) -> Case:
    """A pod under a RuntimeClass; `handler`: of that class, in a cluster that has it."""
    rule = more.pop("rule", None)
    known = {"cluster": ClusterFacts(runtime_classes={runtime: handler})} if handler else {}
    return case(
        pod(containers=[container(gpu=gpu, limits=limits)], runtimeClassName=runtime, **more), rule=rule, **known
    )


ALLOWED = [
    pytest.param(case(pod(gpus=0)), id="none"),
    pytest.param(under("gvisor"), id="another runtime"),
    pytest.param(under("nvidia", 1), id="the GPU runtime with a GPU"),
    pytest.param(
        case(pod(containers=[container(), container("web", gpu=None)], runtimeClassName="nvidia")),
        id="the GPU runtime with a GPU in one container of two",
    ),
    pytest.param(
        under("nvidia", limits={"volcano.sh/vgpu-number": "1"}),
        id="the GPU runtime with a GPU that the policy does not know",
    ),
    *[
        pytest.param(under(runtime, limits={name: "1"}), id=f"the runtime of {name}")
        for runtime, name in {
            "ascend": "huawei.com/Ascend910",
            "cambricon": "cambricon.com/mlu",
            "hygon": "hygon.com/dcu",
            "enflame": "enflame.com/gcu",
            "neuron": "aws.amazon.com/neuroncore",
            "nvidia": "tencent.com/vcuda-core",
        }.items()
    ],
    pytest.param(
        under("nvidia", annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler"),
        id="with a part of a GPU by KAI, whose webhook sets it",
    ),
    pytest.param(under("fast", handler="runsc"), id="another runtime, by its handler"),
]


def message(seen: str) -> list[str]:
    return [
        f"spec.runtimeClassName: saw {seen} in a pod that asks for no GPU, wanted a GPU limit beside it: without one the image "
        "may see every GPU of the node. Remove it, or ask for a GPU in the limits of a container."
    ]


REFUSED = [
    pytest.param(
        under("nvidia", resourceClaims=[{"name": "gpu"}]),
        message('"nvidia"'),
        id="with a claim, which may be of any device",
    ),
    pytest.param(
        under("nvidia", annotations={"gpu-fraction": "0.5"}),
        message('"nvidia"'),
        id="with a part of a GPU that its scheduler does not read",
    ),
    pytest.param(
        under("nvidia", limits={"x.io/gpu": "0"}),
        message('"nvidia"'),
        id="with 0 of a GPU that the policy does not know",
    ),
    pytest.param(under("habana"), message('"habana"'), id="the runtime of another vendor"),
    pytest.param(
        under("fast", handler="nvidia-cdi"),
        message('"fast", the runtime "nvidia-cdi",'),
        id="under another name, by its handler",
    ),
    pytest.param(under("nvidia"), message('"nvidia"'), id="without a GPU"),
    pytest.param(under("nvidia-cdi", 0), message('"nvidia-cdi"'), id="with 0 GPUs"),
    pytest.param(
        under("gpu-fast", rule=RuntimeClass(classes=("gpu-*",))), message('"gpu-fast"'), id="a class of the policy"
    ),
]
