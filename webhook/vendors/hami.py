"""HAMi, which gives out parts of GPUs."""

from typing import Final

from webhook.vendors.model import HostPath, Resource, Vendor

_ISOLATED: Final = "kai-resource-isolator.io/webhook"

HAMI: Final = Vendor(
    name="HAMi",
    facts={
        "https://github.com/Project-HAMi/HAMi/blob/master/charts/hami/values.yaml": (
            Resource("nvidia.com/gpumem*", "part"),
            Resource("nvidia.com/gpucores", "part"),
        ),
        "https://github.com/Project-HAMi/KAI-resource-isolator/blob/main/README.md": (
            HostPath("/usr/local/vgpu", label=_ISOLATED),
            HostPath("/usr/local/vgpu/containers", label=_ISOLATED),
            HostPath("/tmp/vgpulock", label=_ISOLATED),  # noqa: S108  of the node
        ),
    },
)
