"""NPUs of Huawei: Ascend."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Variable, Vendor

_SHARED: Final = ("A", "B", "B2", "B3", "B4", "B4-1", "C")
_CHIPS: Final = (*[f"910{chip}" for chip in _SHARED], "310P")

ASCEND: Final = Vendor(
    name="Huawei Ascend",
    facts={
        "https://github.com/Project-HAMi/HAMi/blob/master/charts/hami/templates/scheduler/device-configmap.yaml": (
            *[Resource(f"huawei.com/Ascend910{chip}", "share") for chip in _SHARED],
            *[Resource(f"huawei.com/Ascend{chip}-{part}", "part") for chip in _CHIPS for part in ("memory", "core")],
        ),
        "https://github.com/Ascend/mind-cluster/blob/master/component/ascend-docker-runtime/runtime/process/process.go": (
            Variable("ASCEND_VISIBLE_DEVICES", none=("", "void", "none"), anywhere=True),  # with none it does not start
            Variable(
                "MOUNT_BY_RUNTIME_FOR_DP", none=()
            ),  # mounts the sockets of the container runtimes, whatever its value
        ),
        "https://gitcode.com/Ascend/mind-cluster": (
            Resource("huawei.com/Ascend310"),
            Resource("huawei.com/Ascend310P"),
            Resource("huawei.com/Ascend910"),
            Resource("huawei.com/Ascend310P-V*"),
            Resource("huawei.com/Ascend310P-IPro"),
            Resource("huawei.com/Ascend910-*", "slice"),
            *[Resource(f"huawei.com/Ascend310P-{cores}c*", "slice") for cores in (1, 2, 4)],
            Resource("huawei.com/npu"),
            Resource("huawei.com/npu-core", "part"),
            Variable("ASCEND_RUNTIME_*"),
            Variable("ASCEND_VNPU_SPECS"),
            Variable("ASCEND_ALLOW_LINK"),
            Variable("ASCEND_RT_VISIBLE_DEVICES", "nothing"),
            Variable("NPU_VISIBLE_DEVICES", "nothing"),
            RuntimeClass("ascend*"),
        ),
    },
)
