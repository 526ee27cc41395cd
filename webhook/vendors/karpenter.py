"""Karpenter, which makes nodes of any cloud."""

from typing import Final

from webhook.vendors.model import Label, Vendor

KARPENTER: Final = Vendor(
    name="Karpenter",
    facts={
        "https://karpenter.sh/docs/concepts/scheduling/": (
            Label("karpenter.sh/nodepool", "pool"),
            Label("karpenter.sh/capacity-type", "spot"),
        ),
    },
)
