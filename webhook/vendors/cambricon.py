"""MLUs of Cambricon."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Taint, Variable, Vendor

_MODELS: Final = ("mlu", "mlu290", "mlu370")

CAMBRICON: Final = Vendor(
    name="Cambricon",
    facts={
        "https://github.com/Cambricon/cambricon-k8s-device-plugin": (
            *[Resource(f"cambricon.com/{mlu}") for mlu in _MODELS],
            *[Resource(f"cambricon.com/{mlu}.mim*", "slice") for mlu in _MODELS],
            *[Resource(f"cambricon.com/{mlu}.share", "share") for mlu in _MODELS],
            *[Resource(f"cambricon.com/{mlu}.smlu.*", "part") for mlu in _MODELS],
            Resource("cambricon.com/real-mlu-counts", "none"),
            Taint("cambricon.com/mlu"),
            Variable("CAMBRICON_VISIBLE_DEVICES"),
            Variable("MLU_VISIBLE_DEVICES", "nothing"),
            RuntimeClass("cambricon*"),
        ),
        "https://github.com/Project-HAMi/HAMi/blob/master/charts/hami/values.yaml": (
            Resource("cambricon.com/vmlu", "part"),
        ),
        "https://github.com/Project-HAMi/HAMi/blob/v2.2/docs/cambricon-mlu-support.md": (
            Resource("cambricon.com/mlunum", "part"),
            Resource("cambricon.com/mlumem", "part"),
        ),
    },
)
