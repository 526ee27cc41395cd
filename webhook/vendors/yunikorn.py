"""Apache YuniKorn, a scheduler with queues."""

from typing import Final

from webhook.vendors.model import OwnQueues, Vendor

YUNIKORN: Final = Vendor(
    name="YuniKorn",
    facts={
        "https://yunikorn.apache.org/docs/next/user_guide/priorities": (OwnQueues("yunikorn", "YuniKorn"),),
    },
)
