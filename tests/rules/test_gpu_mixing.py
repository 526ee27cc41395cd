"""GPUs that cannot be used together in one container."""

from tests.builders import Case, asking, case, container
from tests.controlplane.objects import pod
from webhook.rules.gpu_mixing import GpuMixing

RULE = GpuMixing()
AMD = asking(name="amd", vendor="amd.com")


def claiming(*uses: dict[str, str], gpu: int | None = None) -> Case:
    """A container that uses requests of a claim for GPUs of two vendors."""
    made = container(gpu=gpu)
    made["resources"] = {**(made.get("resources") or {}), "claims": list(uses)}
    return case(pod(containers=[made]), claimed=(asking(), AMD))


ALLOWED: dict[str, Case] = {
    "whole GPUs of one vendor": case(pod(gpus=8)),
    "two sizes of slices": case(pod(gpus=0, limits={"nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-3g.40gb": "1"})),
    "two vendors in two containers": case(
        pod(containers=[container("a"), container("b", gpu=None, limits={"amd.com/gpu": "1"})])
    ),
    "none of the second vendor": case(pod(limits={"amd.com/gpu": "0"})),
    "a claim for GPUs of the same vendor": claiming({"name": "train", "request": "gpu"}, gpu=1),
    "a claim for two vendors that the container does not use": claiming({"name": "other"}, gpu=1),
    "a resource beside the GPU that is none": case(pod(limits={"nvidia.com/gpumem": "4000"})),
}


def message(seen: str, end: str, field: str = "containers[0]") -> list[str]:
    return [f"spec.{field}.resources.limits: saw {seen}, wanted {end}"]


_VENDORS = "GPUs of one vendor. Remove all from the container but those that its image is built for, for example nvidia.com/gpu for CUDA."
_KINDS = (
    "either whole GPUs or parts of GPUs. Keep one of them: CUDA does not use whole GPUs and parts of GPUs together."
)
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "two vendors": (
        case(pod(limits={"amd.com/gpu": "1"})),
        message('nvidia.com/gpu, amd.com/gpu in container "main"', _VENDORS),
    ),
    "whole GPUs beside slices": (
        case(pod(limits={"nvidia.com/mig-1g.10gb": "1"})),
        message('nvidia.com/gpu, nvidia.com/mig-1g.10gb in container "main"', _KINDS),
    ),
    "whole GPUs beside shares, in an init container": (
        case(pod(init=[container("setup", limits={"nvidia.com/gpu.shared": "1"})])),
        message('nvidia.com/gpu, nvidia.com/gpu.shared in container "setup"', _KINDS, "initContainers[0]"),
    ),
    "a claim for GPUs of another vendor": (
        claiming({"name": "train", "request": "amd"}, gpu=1),
        message('nvidia.com/gpu, GPUs of amd.com by template "train" in container "main"', _VENDORS),
    ),
    "one claim for GPUs of two vendors": (
        claiming({"name": "train"}),
        message(
            'GPUs of nvidia.com by template "train", GPUs of amd.com by template "train" in container "main"', _VENDORS
        ),
    ),
}
