"""GPUs of Intel: its device plugin and operator, and its DRA driver. Gaudi is in `habana`."""

from typing import Final

from webhook.vendors.model import DeviceClass, Label, Namespace, Resource, Taint, Vendor

INTEL: Final = Vendor(
    name="Intel",
    facts={
        "https://intel.github.io/intel-device-plugins-for-kubernetes/cmd/gpu_plugin/README.html": (
            Resource("gpu.intel.com/i915"),
            Resource("gpu.intel.com/xe"),
            Resource("gpu.intel.com/i915_monitoring", "all", of="gpu.intel.com/i915"),
            Resource("gpu.intel.com/xe_monitoring", "all", of="gpu.intel.com/xe"),
            Resource("gpu.intel.com/tiles", "none"),
            Resource("gpu.intel.com/dxg", "none"),
            Taint("gpu.intel.com/i915", always=True),
            Taint("gpu.intel.com/xe", always=True),
            Taint("gpu.intel.com/*"),
            Label("gpu.intel.com/product", "model"),
            Label("gpu.intel.com/*", "hardware"),
            Namespace("inteldeviceplugins-system"),
        ),
        "https://github.com/intel/intel-resource-drivers-for-kubernetes": (
            DeviceClass("gpu.intel.com", "gpu.intel.com"),
        ),
    },
)
