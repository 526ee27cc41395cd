"""Parts of NVIDIA GPUs by Volcano's vGPU (https://volcano.sh)."""

from typing import Final

from webhook.cluster.vgpu import Resources, Vgpu

VOLCANO: Final = Vgpu(
    name="volcano.sh/vgpu",
    registered="volcano.sh/node-vgpu-register",
    assigned=("volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate"),
    resources=Resources(
        *(
            "volcano.sh/vgpu-number",
            "volcano.sh/vgpu-memory",
            "volcano.sh/vgpu-memory-percentage",
            "volcano.sh/vgpu-cores",
        )
    ),
    fields=("type", "health", "mode"),
    choosing=(
        *("nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "volcano.sh/vgpu-mode"),
        *("volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid", "volcano.sh/vgpu-podgroup-policy"),
    ),
    withdrawn=("volcano.sh/node-vgpu-handshake", ""),
)
