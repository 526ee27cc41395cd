"""TPUs of Google, which GKE offers."""

from typing import Final

from webhook.vendors.model import Variable, Vendor

TPU: Final = Vendor(
    name="Google TPU",
    facts={
        "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/tpus": (
            Variable("TPU_VISIBLE_DEVICES", "nothing"),
        )
    },
)
