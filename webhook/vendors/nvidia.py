"""GPUs of NVIDIA: its device plugin, GPU Operator, container toolkit, DRA driver and DCGM exporter."""

from typing import Final

from webhook.vendors.model import (
    Annotation,
    Collectives,
    Command,
    CudaImage,
    DeviceClass,
    DeviceMount,
    Divided,
    DriverVariable,
    ForDesktops,
    Label,
    MeasuringPods,
    Metric,
    Namespace,
    Profile,
    Resource,
    RuntimeClass,
    SeriesLabel,
    Taint,
    Unhealthy,
    Variable,
    Vendor,
)

_GPU: Final = "nvidia.com/gpu"
_PRODUCT: Final = "nvidia.com/gpu.product"
_STRATEGY: Final = "nvidia.com/gpu.sharing-strategy"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
_SMI: Final = Command(
    "nvidia-smi --query-gpu=uuid,utilization.gpu,memory.used,memory.total,temperature.gpu --format=csv,noheader,nounits",
    "GPU-[0-9a-f-]{8,64}",
    ("[N/A]", "N/A", "[Not Supported]", "[Not Found]", "[Insufficient Permissions]", "[Unknown Error]"),
    ("[GPU is lost]", "[GPU requires reset]"),
)

NVIDIA: Final = Vendor(
    name="NVIDIA",
    facts={
        "https://github.com/NVIDIA/k8s-device-plugin/blob/main/README.md": (
            Resource(_GPU),
            Resource("nvidia.com/gpu.shared", "share", alone=True),
            Resource("nvidia.com/mig-*", "slice", alone=True),
            Resource("nvidia.com/gpu-*", "none"),
            Taint(_GPU, always=True),
            Taint("nvidia.com/mig*"),
        ),
        "https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md": (
            Label(_PRODUCT, "model"),
            Label("nvidia.com/gpu.memory", "memory"),
            Label("nvidia.com/gpu.count", "count"),
            Label("nvidia.com/gpu.present", "present"),
            Label("feature.node.kubernetes.io/pci-10de.present", "present"),
            Label("nvidia.com/gpu.clique", "domain"),
            Label("nvidia.com/cuda.driver-version.*", "driver"),
            Label("nvidia.com/cuda.runtime-version.*", "cuda"),
            Label("nvidia.com/cuda.runtime.*", "cuda"),
            Label("nvidia.com/gpu.family", "hardware"),
            Label("nvidia.com/gpu.*", "hardware"),
            Label(_REPLICAS, "mode"),
            Label(_STRATEGY, "mode"),
            Label("nvidia.com/mig.config", "mode"),
            Label("nvidia.com/mig.strategy", "mode"),
            Label("nvidia.com/mig.capable", "mode"),
            Divided(_GPU, "slice", _PRODUCT, "*-MIG-*"),
            Divided(_GPU, "share", _STRATEGY, "time-slicing", _REPLICAS),
            Divided(_GPU, "share", _STRATEGY, "mps", _REPLICAS, refused=True),
            Divided(_GPU, "share", _PRODUCT, "*-SHARED", _REPLICAS),
            Divided(_GPU, "share", _REPLICAS, into=_REPLICAS),
        ),
        "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html": (
            *[Profile(f"*1g.{memory}gb*", 4) for memory in (6, 20, 24, 35, 45)],
            Profile("*2g.12gb*", 2),
            Profile("*2g.48gb*", 2),
            Profile("*1g.*", 7),
            Profile("*2g.*", 3),
            Profile("*3g.*", 2),
        ),
        "https://github.com/NVIDIA/k8s-operator-libs/blob/main/pkg/upgrade/consts.go": (
            Unhealthy(
                "nvidia.com/gpu-driver-upgrade-state",
                (
                    "cordon-required",
                    "node-maintenance-required",
                    "post-maintenance-required",
                    "wait-for-jobs-required",
                    "pod-deletion-required",
                    "drain-required",
                    "pod-restart-required",
                    "validation-required",
                    "uncordon-required",
                    "upgrade-failed",
                ),
            ),
        ),
        "https://gitlab.com/nvidia/container-images/cuda": (CudaImage("nvidia/cuda"),),
        "https://github.com/pytorch/pytorch/blob/main/docker.Makefile": (
            CudaImage("pytorch/pytorch", before="cuda", but=("runtime",)),
        ),
        "https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html": tuple(
            [ForDesktops(f"{brand}{model}-") for brand in ("NVIDIA-", "") for model in ("GeForce", "TITAN")]
        ),
        "https://github.com/NVIDIA/nvidia-container-toolkit/blob/main/internal/config/image/cuda_image.go": (
            Variable("NVIDIA_VISIBLE_DEVICES", none=("void", "none", "")),
            Variable("NVIDIA_MIG_CONFIG_DEVICES"),
            Variable("NVIDIA_MIG_MONITOR_DEVICES"),
            Variable("NVIDIA_IMEX_CHANNELS"),
            Variable("NVIDIA_NVSWITCH"),
            Variable("DOCKER_RESOURCE_*"),
            Variable("CUDA_VERSION", "legacy"),
            Variable("NVIDIA_GDS", "besideGpu"),
            Variable("NVIDIA_MOFED", "besideGpu"),
            Variable("NVIDIA_GDRCOPY", "besideGpu"),
            Variable("CUDA_VISIBLE_DEVICES", "own"),
            DeviceMount("nvidia-container-devices"),
            RuntimeClass("nvidia*"),
        ),
        "https://github.com/NVIDIA/nvidia-container-toolkit/blob/main/internal/config/image/envvars.go": (
            DriverVariable("CUDA_VERSION", "cuda"),
            DriverVariable("NVIDIA_REQUIRE_CUDA", "required"),
            DriverVariable("NVIDIA_DISABLE_REQUIRE", "unchecked"),
        ),
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html": (
            Collectives("NCCL", "nvidia.com"),
        ),
        "https://gvisor.dev/docs/user_guide/gpu/": (Annotation("dev.gvisor.internal.nvproxy", "besideGpu"),),
        "https://github.com/NVIDIA/sandbox-device-plugin": (
            Resource("nvidia.com/pgpu"),
            Resource("nvidia.com/vgpu", "slice"),
        ),
        "https://github.com/NVIDIA/kubevirt-gpu-device-plugin/blob/master/pkg/device_plugin/device_plugin.go": (
            *[
                Resource(f"nvidia.com/{family}*")
                for family in ("GM2", "GP1", "GV1", "TU1", "GA1", "AD1", "GH1", "GB1", "GB2")
            ],
            Resource("nvidia.com/GRID_*", "slice"),
            Resource("nvidia.com/NVIDIA_*", "slice"),
        ),
        "https://github.com/NVIDIA/gpu-operator/blob/main/deployments/gpu-operator/values.yaml": (
            Namespace("gpu-operator"),
            Namespace("nvidia-gpu-operator"),
        ),
        "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu": (DeviceClass("gpu.nvidia.com", "nvidia.com"),),
        "https://github.com/NVIDIA/dcgm-exporter/blob/main/etc/default-counters.csv": (
            Metric("utilisation", "DCGM_FI_DEV_GPU_UTIL"),
            Metric("engine", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
            Metric("memoryUsed", "DCGM_FI_DEV_FB_USED"),
            Metric("memoryFree", "DCGM_FI_DEV_FB_FREE"),
            Metric("temperature", "DCGM_FI_DEV_GPU_TEMP"),
            Metric("xid", "DCGM_FI_DEV_XID_ERRORS"),
        ),
        "https://github.com/NVIDIA/dcgm-exporter/blob/main/internal/pkg/rendermetrics/render_metrics.go": (
            SeriesLabel("UUID", "uuid"),
            SeriesLabel("uuid", "uuid"),
            SeriesLabel("gpu", "number"),
            SeriesLabel("device", "number"),
            SeriesLabel("GPU_I_ID", "instance"),  # its UUID is that of the GPU
            SeriesLabel("Hostname", "node"),
        ),
        "https://github.com/NVIDIA/gpu-operator/tree/main/assets": (
            MeasuringPods("dcgm", "asks the DCGM exporters", "DCGM exporters", "gpu-operator", "nvidia-dcgm-exporter"),
            MeasuringPods(
                "nvidiaSmi",
                "runs nvidia-smi in pods of a DaemonSet",
                "pods that have nvidia-smi",
                "gpu-operator",
                "nvidia-device-plugin-daemonset",
                _SMI,
            ),
        ),
    },
)
