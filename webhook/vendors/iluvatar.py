"""GPUs of Iluvatar CoreX. Under its runtime a container without the variable gets all of them."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Variable, Vendor

ILUVATAR: Final = Vendor(
    name="Iluvatar",
    facts={
        "https://github.com/Deep-Spark/ix-container-toolkit/blob/master/internal/config/image/cuda_image.go": (
            Variable("IX_VISIBLE_DEVICES", none=("void", "none", ""), anywhere=True),
            RuntimeClass("iluvatar*"),
        ),
        "https://github.com/Deep-Spark/ix-device-plugin/blob/master/README.md": (Resource("iluvatar.com/gpu"),),
        "https://github.com/Project-HAMi/HAMi/blob/master/charts/hami/templates/scheduler/device-configmap.yaml": (
            Resource("iluvatar.ai/MR-*", "part"),
            Resource("iluvatar.ai/BI-*", "part"),
        ),
        "https://github.com/Project-HAMi/HAMi/blob/v2.5.0/docs/iluvatar-gpu-support.md": (
            Resource("iluvatar.ai/gpu"),
            Resource("iluvatar.ai/vgpu", "part"),
            Resource("iluvatar.ai/vcuda-*", "part"),
        ),
        "https://github.com/HwangDozz/ix-container-toolkit": (
            Variable("ILUVATAR_VISIBLE_DEVICES"),
            Variable("ILUVATAR_COREX_*"),
        ),
    },
    unknown=("whether a runtime of its own reads ILUVATAR_VISIBLE_DEVICES and ILUVATAR_COREX_VISIBLE_DEVICES",),
)
