"""What rules read of claims."""

from typing import Any

import pytest

from webhook.kube.claim_requests import ClaimRequest, claim_requests

NVIDIA = 'device.driver == "gpu.nvidia.com"'
CLASSES = {
    "gpu.nvidia.com": (f'{NVIDIA} && device.attributes["gpu.nvidia.com"].type == "gpu"',),
    "mig.nvidia.com": (f"{NVIDIA} && device.attributes['gpu.nvidia.com'].type == 'mig'",),
    "ours": ("device.driver=='gpu.amd.com'",),
    "nic": ('device.driver == "dra.net"',),
    "any": ("true",),
}


def read(*requests: Any) -> list[ClaimRequest]:
    return list(claim_requests({"requests": requests}, CLASSES.get, "spec.devices.requests[{}]"))


def exactly(of: str = "gpu.nvidia.com", **more: Any) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": of, **more}}


@pytest.mark.parametrize(
    ("request_", "kind", "vendor", "devices"),
    [
        (exactly(count=3), "whole", "nvidia.com", 3),
        (exactly("mig.nvidia.com"), "slice", "nvidia.com", 1),
        (exactly("ours", count=2), "whole", "amd.com", 2),
        (exactly("nic", count=9), "other", "", 9),
        (exactly("any", count=2), "", "", 2),
        (exactly("any", selectors=[{"cel": {"expression": NVIDIA}}]), "whole", "nvidia.com", 1),
        (exactly("gpu.intel.com"), "whole", "gpu.intel.com", 1),
        (exactly("unknown"), "", "", 1),
        (exactly(allocationMode="All"), "whole", "nvidia.com", None),
        (
            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "mig.nvidia.com", "count": 7},
                                             {"name": "b", "deviceClassName": "gpu.nvidia.com", "count": 2}]},
            "whole", "nvidia.com", 7,
        ),
    ],
)  # fmt: skip
def test_a_request_is_for_devices_of_a_kind(request_: Any, kind: str, vendor: str, devices: int | None) -> None:
    (found,) = read(request_)
    assert (found.kind, found.vendor, found.devices, found.path) == (kind, vendor, devices, "spec.devices.requests[0]")


@pytest.mark.parametrize(
    ("toleration", "all_of_them"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "broken", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_of_everything(toleration: Any, all_of_them: bool) -> None:
    assert read(exactly(tolerations=[toleration]))[0].tolerates_all is all_of_them


def test_the_expressions_of_the_class_come_first_and_an_unknown_class_is_said() -> None:
    assert read(exactly("any", selectors=[{"cel": {"expression": "false"}}]))[0].alternatives == (("true", "false"),)
    assert read(exactly("unknown"))[0].alternatives == ()


def test_no_more_is_read_than_the_api_server_lets_through() -> None:
    assert len(read(*[exactly()] * 100)) == 32
    with pytest.raises((KeyError, TypeError, AttributeError)):
        read({"name": "r"})
