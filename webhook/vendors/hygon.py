"""DCUs of Hygon, which its toolkit calls HCUs. The toolkit reads NVIDIA's variable too: void in one of both holds for both."""

from typing import Final

from webhook.vendors.model import DeviceMount, Label, Resource, RuntimeClass, Variable, Vendor

HYGON: Final = Vendor(
    name="Hygon",
    facts={
        "https://github.com/HYGON-AI/hcu-container-toolkit/tree/main/internal/config/image": (
            Variable("HCU_VISIBLE_DEVICES", none=("void", "none", "")),
            Variable("VHCU_VISIBLE_DEVICES"),
            Variable("MIG_VISIBLE_DEVICES"),
            Variable("ROCM_VERSION", "legacy"),
            Variable("HCU_MOFED", "besideGpu"),
            Variable("RESOURCE_REGISTER_STRATEGY"),  # mounts where the node says who has which part
            DeviceMount("hcu-container-devices"),
        ),
        "https://github.com/HYGON-AI/hcu-container-toolkit/blob/main/docs/user-guide/k8s-device-plugin.md": (
            Resource("hygon.com/hcu"),
            Resource("hygon.com/hcu-mig-*", "slice"),
            Resource("hygon.com/hcunum", "part"),
            Label("hygon.com/hcu.name", "model"),
            Label("hygon.com/hcu", "present"),
            RuntimeClass("hcu*"),
        ),
        "https://github.com/Project-HAMi/HAMi/blob/master/pkg/device/hygon/device.go": (
            Resource("hygon.com/dcunum", "part"),
            Resource("hygon.com/dcumem", "part"),
            Resource("hygon.com/dcucores", "part"),
        ),
        "https://github.com/gpustack/runtime/blob/main/gpustack_runtime/envs.py": (
            Resource("hygon.com/dcu"),
            Variable("HYGON_VISIBLE_DEVICES"),
            Variable("DCU_VISIBLE_DEVICES"),
            RuntimeClass("hygon*"),
            RuntimeClass("dtk*"),
        ),
    },
    unknown=("whether anything reads HYGON_VISIBLE_DEVICES and DCU_VISIBLE_DEVICES",),
)
