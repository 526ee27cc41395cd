"""Which pods may use a GPU runtime."""

from typing import Any

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


ALLOWED: dict[str, Case] = {
    "none": case(pod(gpus=0)),
    "another runtime": under("gvisor"),
    "the GPU runtime with a GPU": under("nvidia", 1),
    "the GPU runtime with a GPU in one container of two": case(
        pod(containers=[container(), container("web", gpu=None)], runtimeClassName="nvidia")
    ),
    "the GPU runtime with a GPU that the policy does not know": under("nvidia", limits={"volcano.sh/vgpu-number": "1"}),
    **{
        f"the runtime of {name}": under(runtime, limits={name: "1"})
        for runtime, name in {
            "ascend": "huawei.com/Ascend910",
            "cambricon": "cambricon.com/mlu",
            "hygon": "hygon.com/dcu",
            "enflame": "enflame.com/gcu",
            "neuron": "aws.amazon.com/neuroncore",
            "nvidia": "tencent.com/vcuda-core",
        }.items()
    },
    "with a part of a GPU by KAI, whose webhook sets it": under(
        "nvidia", annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler"
    ),
    "another runtime, by its handler": under("fast", handler="runsc"),
}


def message(seen: str) -> list[str]:
    return [
        f"spec.runtimeClassName: saw {seen} in a pod that asks for no GPU, wanted a GPU limit beside it: without one the image "
        "may see every GPU of the node. Remove it, or ask for a GPU in the limits of a container."
    ]


REFUSED: dict[str, tuple[Case, list[str]]] = {
    "with a claim, which may be of any device": (
        under("nvidia", resourceClaims=[{"name": "gpu"}]),
        message('"nvidia"'),
    ),
    "with a part of a GPU that its scheduler does not read": (
        under("nvidia", annotations={"gpu-fraction": "0.5"}),
        message('"nvidia"'),
    ),
    "with 0 of a GPU that the policy does not know": (under("nvidia", limits={"x.io/gpu": "0"}), message('"nvidia"')),
    "the runtime of another vendor": (under("habana"), message('"habana"')),
    "under another name, by its handler": (
        under("fast", handler="nvidia-cdi"),
        message('"fast", the runtime "nvidia-cdi",'),
    ),
    "without a GPU": (under("nvidia"), message('"nvidia"')),
    "with 0 GPUs": (under("nvidia-cdi", 0), message('"nvidia-cdi"')),
    "a class of the policy": (under("gpu-fast", rule=RuntimeClass(classes=("gpu-*",))), message('"gpu-fast"')),
}
