"""GPUs that cannot be used together in one container."""

import pytest

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


ALLOWED = [
    pytest.param(case(pod(gpus=8)), id="whole GPUs of one vendor"),
    pytest.param(
        case(pod(gpus=0, limits={"nvidia.com/mig-1g.10gb": "1", "nvidia.com/mig-3g.40gb": "1"})),
        id="two sizes of slices",
    ),
    pytest.param(
        case(pod(containers=[container("a"), container("b", gpu=None, limits={"amd.com/gpu": "1"})])),
        id="two vendors in two containers",
    ),
    pytest.param(case(pod(limits={"amd.com/gpu": "0"})), id="none of the second vendor"),
    pytest.param(claiming({"name": "train", "request": "gpu"}, gpu=1), id="a claim for GPUs of the same vendor"),
    pytest.param(claiming({"name": "other"}, gpu=1), id="a claim for two vendors that the container does not use"),
    pytest.param(case(pod(limits={"nvidia.com/gpumem": "4000"})), id="a resource beside the GPU that is none"),
]


def message(seen: str, end: str, field: str = "containers[0]") -> list[str]:
    return [f"spec.{field}.resources.limits: saw {seen}, wanted {end}"]


_VENDORS = "GPUs of one vendor. Remove all from the container but those that its image is built for, for example nvidia.com/gpu for CUDA."
_KINDS = (
    "either whole GPUs or parts of GPUs. Keep one of them: CUDA does not use whole GPUs and parts of GPUs together."
)
REFUSED = [
    pytest.param(
        case(pod(limits={"amd.com/gpu": "1"})),
        message('nvidia.com/gpu, amd.com/gpu in container "main"', _VENDORS),
        id="two vendors",
    ),
    pytest.param(
        case(pod(limits={"nvidia.com/mig-1g.10gb": "1"})),
        message('nvidia.com/gpu, nvidia.com/mig-1g.10gb in container "main"', _KINDS),
        id="whole GPUs beside slices",
    ),
    pytest.param(
        case(pod(init=[container("setup", limits={"nvidia.com/gpu.shared": "1"})])),
        message('nvidia.com/gpu, nvidia.com/gpu.shared in container "setup"', _KINDS, "initContainers[0]"),
        id="whole GPUs beside shares, in an init container",
    ),
    pytest.param(
        claiming({"name": "train", "request": "amd"}, gpu=1),
        message('nvidia.com/gpu, GPUs of amd.com by template "train" in container "main"', _VENDORS),
        id="a claim for GPUs of another vendor",
    ),
    pytest.param(
        claiming({"name": "train"}),
        message(
            'GPUs of nvidia.com by template "train", GPUs of amd.com by template "train" in container "main"', _VENDORS
        ),
        id="one claim for GPUs of two vendors",
    ),
]
