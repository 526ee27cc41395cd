"""MLUs of Cambricon."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Variable, Vendor

CAMBRICON: Final = Vendor(
    name="Cambricon",
    facts={
        "https://github.com/Cambricon/cambricon-k8s-device-plugin": (
            Resource("cambricon.com/mlu"),
            Resource("cambricon.com/mlu370"),
            Resource("cambricon.com/mlu370.mim*", "slice"),
            Resource("cambricon.com/mlu.share", "share"),
            Resource("cambricon.com/mlu.smlu.*", "part"),
            Resource("cambricon.com/vmlu", "part"),
            Variable("CAMBRICON_VISIBLE_DEVICES"),
            Variable("MLU_VISIBLE_DEVICES", "nothing"),
            RuntimeClass("cambricon*"),
        ),
    },
)
