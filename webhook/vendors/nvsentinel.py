"""NVSentinel, which finds sick GPUs and says so in conditions of the node. A condition is True while the check fails."""

from typing import Final

from webhook.vendors.model import Condition, HostPath, Vendor

NVSENTINEL: Final = Vendor(
    name="NVSentinel",
    facts={
        "https://github.com/NVIDIA/NVSentinel/blob/main/preflight/pkg/webhook/injector.go": (
            HostPath("/run/nvsentinel", label="nvsentinel.nvidia.com/preflight"),
        ),
        "https://github.com/NVIDIA/NVSentinel": (
            Condition("GpuUnhealthy"),
            Condition("GpuXidError"),
            Condition("GpuMemWatch"),
            Condition("GpuMemoryError"),
            Condition("GpuInforomWatch"),
            Condition("GpuNvlinkWatch"),
            Condition("GpuNvswitchFatalWatch"),
            Condition("GpuAllWatch"),
            Condition("SysLogsXIDError"),
            Condition("SysLogsSXIDError"),
            Condition("SysLogsGPUFallenOff"),
        ),
    },
)
