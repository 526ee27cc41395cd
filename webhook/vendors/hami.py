"""HAMi, which gives out parts of GPUs."""

from typing import Final

from webhook.vendors.model import Resource, Scheduler, Vendor

HAMI: Final = Vendor(
    name="HAMi",
    facts={
        "https://github.com/Project-HAMi/HAMi/blob/master/docs/config.md": (
            Resource("nvidia.com/gpumem*", "part"),
            Resource("nvidia.com/gpucores", "part"),
            Scheduler("hami-scheduler"),
        ),
    },
)
