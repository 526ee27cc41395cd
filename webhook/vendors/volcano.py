"""Volcano, which gives out parts of NVIDIA's GPUs."""

from typing import Final

from webhook.vendors.model import GangKind, Gate, OwnQueues, Resource, SharedCards, Vendor

VOLCANO: Final = Vendor(
    name="Volcano",
    facts={
        "https://github.com/volcano-sh/volcano/blob/master/docs/user-guide/how_to_use_vgpu.md": (
            Resource("volcano.sh/vgpu-*", "part", vendor="nvidia.com"),
            Resource("volcano.sh/gpu-*", "part", vendor="nvidia.com"),
            Resource("volcano.sh/*", "none"),
        ),
        "https://github.com/volcano-sh/volcano/tree/master/pkg/scheduler/api/devices/nvidia/vgpu": (
            SharedCards(
                name="volcano.sh/vgpu",
                cards="volcano.sh/vgpu-number",
                memory="volcano.sh/vgpu-memory",
                percentage="volcano.sh/vgpu-memory-percentage",
                cores="volcano.sh/vgpu-cores",
                registered="volcano.sh/node-vgpu-register",
                assigned=("volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate"),
                fields=("type", "health", "mode"),
                choosing=(
                    *("nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "volcano.sh/vgpu-mode"),
                    *(
                        "volcano.sh/vgpu-use-gpuuuid",
                        "volcano.sh/vgpu-nouse-gpuuuid",
                        "volcano.sh/vgpu-podgroup-policy",
                    ),
                ),
                withdrawn=("volcano.sh/node-vgpu-handshake", ""),
            ),
        ),
        "https://github.com/volcano-sh/apis/blob/master/pkg/apis/scheduling/v1beta1/labels.go": (
            Gate(
                "scheduling.volcano.sh/queue-allocation-gate",
                "Volcano",
                "its queue has room for it",
                "podgroups.scheduling.volcano.sh",
            ),
        ),
        "https://github.com/volcano-sh/apis/blob/master/pkg/apis/scheduling/v1beta1/types.go": (
            GangKind("VolcanoPodGroup", "scheduling.volcano.sh/v1beta1", "podgroups"),
        ),
        "https://github.com/volcano-sh/volcano/tree/master/pkg/scheduler/plugins/priority": (
            OwnQueues("volcano", "Volcano"),
        ),
    },
)
