"""NPUs of Huawei: Ascend."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Variable, Vendor

ASCEND: Final = Vendor(
    name="Huawei Ascend",
    facts={
        "https://gitcode.com/Ascend/mind-cluster": (
            Resource("huawei.com/Ascend*"),
            Variable("ASCEND_VISIBLE_DEVICES"),
            Variable("ASCEND_RUNTIME_*"),
            Variable("ASCEND_VNPU_SPECS"),
            Variable("ASCEND_ALLOW_LINK"),
            Variable("ASCEND_RT_VISIBLE_DEVICES", "nothing"),
            Variable("NPU_VISIBLE_DEVICES", "nothing"),
            RuntimeClass("ascend*"),
        ),
    },
)
