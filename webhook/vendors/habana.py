"""Gaudi, of Intel (Habana)."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Taint, Variable, Vendor

HABANA: Final = Vendor(
    name="Intel Gaudi",
    facts={
        "https://docs.habana.ai/en/latest/Installation_Guide/Additional_Installation/Kubernetes_Installation/index.html": (
            Resource("habana.ai/gaudi"),
            Taint("habana.ai/gaudi", always=True),
            RuntimeClass("habana*"),
            Variable("HABANA_VISIBLE_DEVICES"),
            Variable("HL_VISIBLE_DEVICES", "nothing"),
        ),
    },
)
