"""Which pods may use a GPU runtime."""

from tests.builders import Case, ClusterFacts, case, container, pod
from webhook.rules.runtime_class import RuntimeClass

RULE = RuntimeClass()

ALLOWED: dict[str, Case] = {
    "none": case(pod(container(gpu=None))),
    "another runtime": case(pod(container(gpu=None), runtimeClassName="gvisor")),
    "the GPU runtime with a GPU": case(pod(runtimeClassName="nvidia")),
    "the GPU runtime with a GPU in one container of two": case(
        pod(container(), container("web", gpu=None), runtimeClassName="nvidia")
    ),
    "the GPU runtime with a GPU that the policy does not know": case(
        pod(container(gpu=None, limits={"volcano.sh/vgpu-number": "1"}), runtimeClassName="nvidia")
    ),
    "another runtime, by its handler": case(
        pod(container(gpu=None), runtimeClassName="fast"), cluster=ClusterFacts(runtime_classes={"fast": "runsc"})
    ),
}

_END = "wanted a GPU limit beside it: without one the image may see every GPU of the node. Remove it, or ask for a GPU in the limits of a container."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "with a claim, which may be of any device": (
        case(pod(container(gpu=None), runtimeClassName="nvidia", resourceClaims=[{"name": "gpu"}])),
        [f'spec.runtimeClassName: saw "nvidia" in a pod that asks for no GPU, {_END}'],
    ),
    "with 0 of a GPU that the policy does not know": (
        case(pod(container(gpu=None, limits={"x.io/gpu": "0"}), runtimeClassName="nvidia")),
        [f'spec.runtimeClassName: saw "nvidia" in a pod that asks for no GPU, {_END}'],
    ),
    "the runtime of another vendor": (
        case(pod(container(gpu=None), runtimeClassName="habana")),
        [f'spec.runtimeClassName: saw "habana" in a pod that asks for no GPU, {_END}'],
    ),
    "under another name, by its handler": (
        case(
            pod(container(gpu=None), runtimeClassName="fast"),
            cluster=ClusterFacts(runtime_classes={"fast": "nvidia-cdi"}),
        ),
        [f'spec.runtimeClassName: saw "fast", the runtime "nvidia-cdi", in a pod that asks for no GPU, {_END}'],
    ),
    "without a GPU": (
        case(pod(container(gpu=None), runtimeClassName="nvidia")),
        [f'spec.runtimeClassName: saw "nvidia" in a pod that asks for no GPU, {_END}'],
    ),
    "with 0 GPUs": (
        case(pod(container(gpu=0), runtimeClassName="nvidia-cdi")),
        [f'spec.runtimeClassName: saw "nvidia-cdi" in a pod that asks for no GPU, {_END}'],
    ),
    "a class of the policy": (
        case(pod(container(gpu=None), runtimeClassName="gpu-fast"), rule=RuntimeClass(classes=("gpu-*",))),
        [f'spec.runtimeClassName: saw "gpu-fast" in a pod that asks for no GPU, {_END}'],
    ),
}
