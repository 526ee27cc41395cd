"""NPUs of Huawei: Ascend."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Variable, Vendor

ASCEND: Final = Vendor(
    name="Huawei Ascend",
    facts={
        "https://github.com/Project-HAMi/HAMi/blob/master/docs/config.md": (
            *[Resource(f"huawei.com/Ascend910{chip}", "share") for chip in ("A", "B", "B2", "B3", "B4")],
            *[Resource(f"huawei.com/Ascend910{chip}-memory", "part") for chip in ("A", "B", "B2", "B3", "B4")],
            Resource("huawei.com/Ascend310P-memory", "part"),
        ),
        "https://gitcode.com/Ascend/mind-cluster": (
            Resource("huawei.com/Ascend310"),
            Resource("huawei.com/Ascend310P"),
            Resource("huawei.com/Ascend910"),
            *[Resource(f"huawei.com/Ascend910-{cores}c*", "slice") for cores in (2, 4, 8, 16)],
            *[Resource(f"huawei.com/Ascend310P-{cores}c*", "slice") for cores in (1, 2, 4)],
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
