"""Koordinator, whose agent sets devices by an annotation that its scheduler writes."""

from typing import Final

from webhook.vendors.model import Annotation, Vendor

KOORDINATOR: Final = Vendor(
    name="Koordinator",
    facts={
        "https://github.com/koordinator-sh/koordinator/tree/main/pkg/koordlet/runtimehooks/hooks/gpu": (
            Annotation("scheduling.koordinator.sh/device-allocated", by_scheduler=True),
        ),
    },
)
