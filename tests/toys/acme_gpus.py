"""GPUs of a vendor that nobody has heard of, in one file."""

from typing import Final

from webhook.vendors.model import (
    Annotation,
    Condition,
    DeviceMount,
    Divided,
    HostPath,
    Label,
    Resource,
    RuntimeClass,
    Taint,
    Variable,
    Vendor,
)

ACME: Final = Vendor(
    name="Acme",
    facts={
        "https://acme.example/device-plugin": (
            Resource("acme.example/gpu"),
            Resource("acme.example/tile-*", "slice", alone=True),
            Resource("acme.example/gpu-monitoring", "all"),
            Taint("acme.example/gpu", always=True),
            Label("acme.example/model", "model"),
            Label("acme.example/ring", "domain"),
            Label("acme.example/fleet", "pool"),
            Divided("acme.example/gpu", "share", "acme.example/clients", into="acme.example/clients"),
            Condition("AcmeFault"),
        ),
        "https://acme.example/runtime": (
            Variable("ACME_DEVICES"),
            Annotation("acme.example/devices*"),
            HostPath("/opt/acme/lib"),
            DeviceMount("acme-devices"),
            RuntimeClass("acme*"),
        ),
    },
)
