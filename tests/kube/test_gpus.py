"""Which resources are GPUs, and what kind of GPU they are."""

import pytest

from tests.builders import GPUS
from webhook.kube.gpus import GpuKind, GpuName, Gpus, vendor


@pytest.mark.parametrize(
    ("resource", "kind"),
    [
        ("nvidia.com/gpu", "whole"),
        ("nvidia.com/gpu.shared", "share"),
        ("nvidia.com/mig-1g.10gb.me", "slice"),
        ("amd.com/gpu", "whole"),
        ("cpu", None),
        ("nvidia.com/gpumem", None),
        ("nvidia.com/rdma-vf", None),
        ("requests.nvidia.com/gpu", None),
        ("nvidia.com/GPU", None),
    ],
)
def test_kind(resource: str, kind: GpuKind | None) -> None:
    assert GPUS.kind(resource) == kind
    assert GPUS.kind(resource) == kind, "asked again"
    assert GPUS.among(["memory", resource]) == ([resource] if kind else [])


def test_the_first_name_that_matches_decides_the_kind() -> None:
    assert Gpus((GpuName("a/b*", "share"), GpuName("a/bc", "whole"))).kind("a/bc") == "share"


def test_the_order_of_resources_stays() -> None:
    found = GPUS.among(["nvidia.com/mig-b", "cpu", "amd.com/gpu", "nvidia.com/gpu"])
    assert found == ["nvidia.com/mig-b", "amd.com/gpu", "nvidia.com/gpu"]


def test_names_that_tenants_invent_do_not_fill_the_memory() -> None:
    gpus = Gpus((GpuName("nvidia.com/mig-*", "slice"),))
    for number in range(5_000):
        assert gpus.kind(f"nvidia.com/mig-{number}") == "slice"
    assert len(gpus._kinds) <= 4096
    long = "nvidia.com/mig-" + "1" * 303
    assert gpus.kind(long) is None, "Kubernetes takes no name of this length"
    assert long not in gpus._kinds


def test_a_vendor_is_the_domain_of_a_resource() -> None:
    assert [vendor(r) for r in ("nvidia.com/gpu", "gpu.intel.com/i915")] == ["nvidia.com", "gpu.intel.com"]
