"""HAMi, which gives out parts of GPUs."""

from typing import Final

from webhook.vendors.model import HostPath, Resource, SharedCards, Vendor

_ISOLATED: Final = "kai-resource-isolator.io/webhook"

HAMI: Final = Vendor(
    name="HAMi",
    facts={
        "https://github.com/Project-HAMi/HAMi/blob/master/charts/hami/values.yaml": (
            Resource("nvidia.com/gpumem*", "part"),
            Resource("nvidia.com/gpucores", "part"),
        ),
        "https://github.com/Project-HAMi/HAMi/blob/master/pkg/device/nvidia/device.go": (
            SharedCards(
                name="hami.io/gpu",
                cards="nvidia.com/gpu",
                memory="nvidia.com/gpumem",
                percentage="nvidia.com/gpumem-percentage",
                cores="nvidia.com/gpucores",
                registered="hami.io/node-nvidia-register",
                assigned=("hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate"),
                fields=("devcore", "type", "numa", "health", "index", "mode"),
                choosing=(
                    *("nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid"),
                    *("nvidia.com/nouse-gpuuuid", "nvidia.com/vgpu-mode", "nvidia.com/numa-bind"),
                    "hami.io/gpu-scheduler-policy",
                ),
                scheduler="hami-scheduler",
                withdrawn=("hami.io/node-handshake", "hami.io/device-cordon"),
            ),
        ),
        "https://github.com/Project-HAMi/KAI-resource-isolator/blob/main/README.md": (
            HostPath("/usr/local/vgpu", label=_ISOLATED),
            HostPath("/usr/local/vgpu/containers", label=_ISOLATED),
            HostPath("/tmp/vgpulock", label=_ISOLATED),  # noqa: S108  of the node
        ),
    },
)
