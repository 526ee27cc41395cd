"""Parts of NVIDIA GPUs by HAMi (https://project-hami.io)."""

from typing import Final

from webhook.cluster.vgpu import Resources, Vgpu

HAMI: Final = Vgpu(
    name="hami.io/gpu",
    registered="hami.io/node-nvidia-register",
    assigned=("hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate"),
    resources=Resources("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    fields=("devcore", "type", "numa", "health", "index", "mode"),
    choosing=(
        *("nvidia.com/use-gputype", "nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"),
        *("nvidia.com/vgpu-mode", "nvidia.com/numa-bind", "hami.io/gpu-scheduler-policy"),
    ),
    own_scheduler="hami-scheduler",
    withdrawn=("hami.io/node-handshake", "hami.io/device-cordon"),
)
