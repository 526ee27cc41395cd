"""GPU sharing by Alibaba Cloud, and by Tencent's gpu-manager and qGPU, which are built alike."""

from typing import Final

from webhook.vendors.model import Resource, SharedMemory, Vendor

ALIYUN: Final = Vendor(
    name="Alibaba Cloud's gpushare",
    facts={
        "https://github.com/AliyunContainerService/gpushare-scheduler-extender/blob/master/docs/userguide.md": (
            Resource("aliyun.com/gpu-*", "part", vendor="nvidia.com"),
            Resource("aliyun.com/*", "none"),
        ),
        "https://github.com/AliyunContainerService/gpushare-scheduler-extender/tree/master/pkg/utils": (
            SharedMemory("aliyun.com/gpu", "aliyun.com/gpu-mem", "aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"),
        ),
    },
)
TENCENT: Final = Vendor(
    name="Tencent Cloud's gpu-manager or qGPU",
    facts={
        "https://github.com/tkestack/gpu-manager": (Resource("tencent.com/vcuda-*", "part", vendor="nvidia.com"),),
        "https://github.com/kubeflow/arena": (Resource("tke.cloud.tencent.com/qgpu-*", "part", vendor="nvidia.com"),),
    },
)
