"""GPUs of AMD: its device plugin and node labeller, GPU Operator, container toolkit and DRA driver."""

from typing import Final

from webhook.vendors.model import (
    Collectives,
    DeviceClass,
    Divided,
    Label,
    Namespace,
    Profile,
    Resource,
    RuntimeClass,
    SeriesLabel,
    Taint,
    Variable,
    Vendor,
)

_GPU: Final = "amd.com/gpu"
_MODES: Final = ("cpx", "qpx", "dpx")
_PARTITION: Final = "amd.com/gpu.compute-memory-partition"

AMD: Final = Vendor(
    name="AMD",
    facts={
        "https://github.com/ROCm/k8s-device-plugin/blob/master/docs/user-guide/resource-allocation.md": (
            Resource(_GPU),
            Resource("amd.com/spx_*"),
            *[Resource(f"amd.com/{mode}_*", "slice") for mode in _MODES],
            Taint(_GPU, always=True),
        ),
        "https://github.com/ROCm/k8s-device-plugin/blob/master/internal/pkg/types/constants.go": (
            Label("amd.com/gpu.product-name", "model"),
            Label(_PARTITION, "mode"),
            Label("amd.com/gpu.*", "hardware"),
            *[Divided(_GPU, "slice", _PARTITION, f"{mode}_*", alone=False) for mode in _MODES],
            Profile("cpx_*", 8),
            Profile("qpx_*", 4),
            Profile("dpx_*", 2),
        ),
        "https://github.com/ROCm/container-toolkit/blob/main/internal/gpu-tracker/gpu-tracker.go": (
            # any word that is no GPU; for each value it asks its tracker, which may fail
            Variable("AMD_VISIBLE_DEVICES", none=("void", "none", "")),
        ),
        "https://github.com/ROCm/container-toolkit": (
            Variable("HIP_VISIBLE_DEVICES", "own"),
            Variable("ROCR_VISIBLE_DEVICES", "own"),
            RuntimeClass("amd*"),
        ),
        "https://github.com/Project-HAMi/HAMi/blob/master/charts/hami/templates/scheduler/device-configmap.yaml": (
            Resource("amd.com/gpumem", "part"),
            Resource("amd.com/gpucores", "part"),
        ),
        "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/install/3rd-party/pytorch-install.html": (
            Collectives("RCCL", "amd.com"),
        ),
        "https://github.com/ROCm/device-metrics-exporter": (
            SeriesLabel("gpu_uuid", "uuid"),
            SeriesLabel("gpu_id", "number"),
            SeriesLabel("hostname", "node"),
        ),
        "https://github.com/ROCm/gpu-operator": (Namespace("kube-amd-gpu"),),
        "https://github.com/ROCm/k8s-gpu-dra-driver": (DeviceClass("gpu.amd.com", "amd.com"),),
    },
)
