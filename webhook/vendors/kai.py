"""KAI and Run:ai, whose schedulers give out parts of NVIDIA's GPUs."""

from typing import Final

from webhook.vendors.model import (
    Condition,
    ContainerPart,
    GangKind,
    Part,
    PartLimit,
    Scheduler,
    SharedBy,
    SharedGroups,
    Vendor,
)

KAI: Final = Vendor(
    name="KAI and Run:ai",
    facts={
        "https://github.com/kai-scheduler/KAI-Scheduler/blob/main/docs/gpu-sharing/README.md": (
            Part("gpu-fraction", "nvidia.com"),
            Part("gpu-memory", "nvidia.com"),
            Part("gpu-fraction-num-devices", "nvidia.com"),
            Scheduler("kai-scheduler"),
            Scheduler("runai-scheduler"),
        ),
        "https://github.com/kai-scheduler/KAI-Scheduler/blob/main/pkg/common/resources/gpu_sharing_validation.go": (
            PartLimit("gpu-fraction.limit", "gpu-fraction"),
            PartLimit("gpu-memory.limit", "gpu-memory"),
            PartLimit("gpu-memory.portion.limit", "gpu-fraction", prefix="kai.scheduler/container."),
        ),
        "https://github.com/kai-scheduler/kai-gpu-fractioning": (
            Condition("gpu-sharing.nvidia.com/Ready", sick="False", of_parts=True),
            Condition("gpu-fractioning.nvidia.com/Ready", sick="False", of_parts=True),
        ),
        "https://github.com/kai-scheduler/KAI-Scheduler/blob/main/pkg/common/constants/constants.go": (
            SharedGroups(
                name="kai.scheduler/gpu",
                scheduler="kai-scheduler",
                gpu="nvidia.com/gpu",
                namespace="kai-resource-reservation",
                group="runai-gpu-group",
                received="received-resource-type",
                fraction="gpu-fraction",
                memory="gpu-memory",
                number="gpu-fraction-num-devices",
            ),
        ),
        "https://github.com/kai-scheduler/KAI-Scheduler/tree/main/pkg/apis/scheduling/v2alpha2": (
            GangKind("KaiPodGroup", "scheduling.run.ai/v2alpha2", "podgroups"),
        ),
        "https://github.com/kai-scheduler/KAI-Scheduler/tree/main/pkg/binder/common/gpusharingconfigmap": (
            SharedBy("runai/shared-gpu-configmap", "gpu-fraction-container-name"),
        ),
        "https://github.com/kai-scheduler/kai-gpu-fractioning/blob/main/README.md": (
            # a constant of KAI's scheduler: `annotationPrefix` of a GpuFractioningConfig is what the node's plugin reads
            ContainerPart(
                "nvidia.com/container.",
                "nvidia.com",
                asks=("gpu-memory.request", "gpu-memory.limit"),
                harmless=("gpu-compute.mode", "gpu-compute.request"),
            ),
        ),
    },
)
