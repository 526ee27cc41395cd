"""Volcano, which gives out parts of NVIDIA's GPUs."""

from typing import Final

from webhook.vendors.model import Gate, Resource, Vendor

VOLCANO: Final = Vendor(
    name="Volcano",
    facts={
        "https://github.com/volcano-sh/volcano/blob/master/docs/user-guide/how_to_use_vgpu.md": (
            Resource("volcano.sh/vgpu-*", "part", vendor="nvidia.com"),
            Resource("volcano.sh/gpu-*", "part", vendor="nvidia.com"),
            Resource("volcano.sh/*", "none"),
        ),
        "https://github.com/volcano-sh/apis/blob/master/pkg/apis/scheduling/v1beta1/labels.go": (
            Gate(
                "scheduling.volcano.sh/queue-allocation-gate",
                "Volcano",
                "its queue has room for it",
                "podgroups.scheduling.volcano.sh",
            ),
        ),
    },
)
