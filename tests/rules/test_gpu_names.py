"""Names that are similar to those of GPUs."""

from dataclasses import replace

import pytest

from tests.builders import EMPTY, GPU, TWO_NODES, Case, case
from tests.controlplane.objects import pod
from webhook.kube.gpus import GpuName, Gpus
from webhook.policy.workload_classes import GPUS as SHIPPED
from webhook.rules.gpu_names import GpuNames

RULE = GpuNames()


def asking(name: str, part: str = "limits") -> Case:
    return case(pod(containers=[{"name": "main", "resources": {part: {name: "1"}}}]))


ALLOWED = [
    pytest.param(case(pod()), id="a GPU"),
    pytest.param(case(pod(), cluster=EMPTY), id="a GPU that no node has, which is for another rule to judge"),
    *[
        pytest.param(asking(name), id=f"another resource: {name}")
        for name in (
            *("cpu", "memory", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "rdma/hca"),
            *("volcano.sh/vgpu-number", "aliyun.com/gpu-mem", "aws.amazon.com/neuron"),
            *("google.com/tpu", "iluvatar.com/gpu"),
            *("metax-tech.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/pgpu"),
            *(
                "nvidia.com/rdma-vf",
                "intel.com/gpu-qat",
                "gpu.intel.com/tiles",
                "gpu.intel.com/dxg",
                "nvidia.com/gpu-10gb",
            ),
            *("nvidia.com/nvswitch", "mthreads.com/gpu", "huawei.com/Ascend910"),
            *("nvidia.com/GA102GL_A10", "example.com/foo"),
        )
    ],
    pytest.param(
        case(pod(limits={"nvidia.com/gpux": "1"}), rule=GpuNames(others=("nvidia.com/gpux",))),
        id="a name that the policy lets be",
    ),
]


def _message(name: str, meant: str = GPU, part: str = "limits") -> list[str]:
    return [
        f'spec.containers[0].resources.{part}[{name}]: saw {name} in container "main", wanted {meant}: what stands there is no GPU. '
        f"Write {meant}."
    ]


REFUSED = [
*[pytest.param(asking(name), _message(name, meant), id=name) for name, meant in {
            "nvdia.com/gpu": GPU,
            "nvidia/gpu": GPU,
            "amd.com/gpus": "amd.com/gpu",
            "nvidia.com/GPU": GPU,
            "nvidia.com/gpus": GPU,
            "Nvidia.com/gpu": GPU,
            "nvidia.io/gpu": GPU,
            "nividia.com/gpu": GPU,
            "www.nvidia.com/gpu": GPU,
            "nvidia.com/gup": GPU,
            "nvidia.com/cpu": GPU,
            "nvidia.com/gpuu": GPU,
            "adm.com/gpu": "amd.com/gpu",
        }.items()],
pytest.param(asking("nvidia/gpu", "requests"), _message("nvidia/gpu", GPU, "requests"), id="in requests alone"),
pytest.param(case(pod(gpus=0, limits={"nvidia.com/gpus": "1"}), cluster=replace(TWO_NODES, offers={"a": {"nvidia.com/gpus": 8}})), _message("nvidia.com/gpus"), id="although a node has it"),
]  # fmt: skip


def test_it_never_refuses_unless_the_policy_says_so() -> None:
    assert RULE.action == "warn"


@pytest.mark.parametrize("name", ["huawei.com/Ascend310P-V", "huawei.com/npu-core"])
def test_beside_all_names_of_the_shipped_policy_what_a_plugin_offers_is_no_slip(name: str) -> None:
    shipped = Gpus(GpuName(gpu.name, gpu.kind) for gpu in SHIPPED)
    asked = asking(name)
    assert not [*RULE.check(asked.context.pod, asked.context._replace(gpus=shipped))]
