"""What rules read of claims."""

from typing import Any, NamedTuple

import pytest

from webhook.kube.claim_requests import Alternative, ClaimRequest, Selected, claim_requests

NVIDIA = 'device.driver == "gpu.nvidia.com"'
CLASSES = {
    "gpu.nvidia.com": (f'{NVIDIA} && device.attributes["gpu.nvidia.com"].type == "gpu"',),
    "mig.nvidia.com": (f"{NVIDIA} && device.attributes['gpu.nvidia.com'].type == 'mig'",),
    "ours": ("device.driver=='gpu.amd.com'",),
    "nic": ('device.driver == "dra.net"',),
    "rdma": ('device.attributes["dra.net"].rdma',),
    "h100": ('device.attributes["gpu.nvidia.com"].productName == "H100"',),
    "near": ('device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"',),
    "driver": (NVIDIA,),
    "any": ("true",),
}


class Known(NamedTuple):
    """Classes, and devices of which nothing is known."""

    found: Selected | None = None

    def class_selectors(self, name: str) -> tuple[str, ...] | None:
        return CLASSES.get(name)

    def selected(self, selectors: tuple[str, ...]) -> Selected | None:
        return self.found


def read(*requests: Any, found: Selected | None = None) -> list[ClaimRequest]:
    return list(claim_requests({"requests": requests}, Known(found), "spec.devices.requests[{}]"))


def exactly(of: str = "gpu.nvidia.com", **more: Any) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": of, **more}}


def selecting(expression: str) -> Any:
    return [{"cel": {"expression": expression}}]


MIG = 'device.attributes["gpu.nvidia.com"].type == "mig"'


@pytest.mark.parametrize(
    ("request_", "kind", "vendor", "devices"),
    [
        (exactly(count=3), "whole", "nvidia.com", 3),
        (exactly("mig.nvidia.com"), "slice", "nvidia.com", 1),
        (exactly("ours", count=2), "whole", "amd.com", 2),
        (exactly("nic", count=9), "other", "", 9),
        (exactly("rdma"), "other", "", 1),
        (exactly("h100"), "whole", "nvidia.com", 1),
        (exactly("near"), "", "", 1),
        (exactly("any", count=2), "", "", 2),
        (exactly("any", selectors=selecting(NVIDIA)), "whole", "nvidia.com", 1),
        (exactly("any", selectors=selecting('device.driver == "dra.net" || true')), "", "", 1),
        (exactly("driver", selectors=selecting(MIG)), "slice", "nvidia.com", 1),
        (exactly("driver", selectors=selecting(f"true || {MIG}")), "whole", "nvidia.com", 1),
        (exactly("driver", selectors=selecting(f"{MIG}{' ' * 2000}|| true")), "whole", "nvidia.com", 1),
        (exactly("gpu.intel.com"), "whole", "gpu.intel.com", 1),
        (exactly("unknown"), "", "", 1),
        (exactly(allocationMode="All"), "whole", "nvidia.com", None),
    ],
)
def test_while_no_devices_are_known_the_class_tells_their_kind(
    request_: Any, kind: str, vendor: str, devices: int | None
) -> None:
    (found,) = read(request_)
    assert found.path == "spec.devices.requests[0]"
    assert found.alternatives == (Alternative(devices, kind, vendor),)


@pytest.mark.parametrize(
    ("kinds", "kind", "vendor"),
    [
        ({("gpu.nvidia.com", "gpu")}, "whole", "nvidia.com"),
        ({("gpu.nvidia.com", "gpu"), ("gpu.nvidia.com", "mig")}, "whole", "nvidia.com"),
        ({("gpu.nvidia.com", "mig")}, "slice", "nvidia.com"),
        ({("gpu.amd.com", "amdgpu-partition")}, "slice", "amd.com"),
        ({("gpu.nvidia.com", "gpu"), ("gpu.amd.com", "")}, "whole", ""),
        ({("dra.net", "")}, "other", ""),
        (set(), "slice", "nvidia.com"),
    ],
)
def test_the_devices_that_it_selects_tell_their_kind(kinds: Any, kind: str, vendor: str) -> None:
    (found,) = read(exactly("mig.nvidia.com"), found=Selected(frozenset(kinds), 8))
    assert found.alternatives == (Alternative(1, kind, vendor, 8),)


def test_each_alternative_is_told_apart() -> None:
    both = [{"name": "a", "deviceClassName": "mig.nvidia.com", "count": 7}, {"name": "b", "deviceClassName": "ours"}]
    (found,) = read({"name": "r", "firstAvailable": both})
    assert found.alternatives == (Alternative(7, "slice", "nvidia.com"), Alternative(1, "whole", "amd.com"))
    assert found.vendor == ""


def test_a_request_that_takes_nothing_from_others() -> None:
    assert read(exactly(adminAccess=True))[0].admin
    assert not read(exactly())[0].admin


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


def test_no_more_is_read_than_the_api_server_lets_through() -> None:
    assert len(read(*[exactly()] * 100)) == 32
    with pytest.raises((KeyError, TypeError, AttributeError)):
        read({"name": "r"})
