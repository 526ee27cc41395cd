"""XPUs of Kunlunxin."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Variable, Vendor

KUNLUNXIN: Final = Vendor(
    name="Kunlunxin",
    facts={
        "https://github.com/zxw3221/xpu-container-toolkit/blob/master/doc/UserGuide.md": (
            Variable("CXPU_VISIBLE_DEVICES", none=("void", "none", "")),
            Variable("XPU_VISIBLE_DEVICES", "nothing"),
            RuntimeClass("xpu*"),
        ),
        "https://github.com/Project-HAMi/HAMi/blob/master/charts/hami/values.yaml": (
            Resource("kunlunxin.com/xpu"),
            Resource("kunlunxin.com/vxpu*", "part"),
        ),
    },
    unknown=("whether containers start with CXPU_VISIBLE_DEVICES=void: its hook hands any value to xpu-container-cli",),
)
