"""Which resources are GPUs, and what kind of GPU they are."""

import pytest

from webhook.kube.gpus import GpuKind, GpuName, Gpus, vendor

GPUS = Gpus(
    (
        GpuName("nvidia.com/gpu", "whole"),
        GpuName("nvidia.com/gpu.shared", "share"),
        GpuName("nvidia.com/mig-*", "slice"),
        GpuName("amd.com/gpu", "whole"),
    )
)


@pytest.mark.parametrize(
    "resource",
    [
        pytest.param("cpu", id="a processor"),
        pytest.param("nvidia.com/gpumem", id="GPU memory of a sharing scheduler"),
        pytest.param("nvidia.com/gpucores", id="GPU cores of a sharing scheduler"),
        pytest.param("nvidia.com/gpufoo", id="a name that begins like a GPU's"),
        pytest.param("nvidia.com/rdma-vf", id="a network card of a GPU vendor"),
        pytest.param("requests.nvidia.com/gpu", id="the key of a quota"),
        pytest.param("amd.com/gpu.shared", id="a suffix of another vendor"),
        pytest.param("nvidia.com", id="a vendor alone"),
        pytest.param("nvidia.com/GPU", id="capital letters"),
        pytest.param("", id="no name"),
    ],
)
def test_this_is_no_gpu(resource: str) -> None:
    assert GPUS.kind(resource) is None
    assert GPUS.kind(resource) is None, "asked again"
    assert GPUS.among([resource]) == []


@pytest.mark.parametrize(
    ("resource", "kind"),
    [
        pytest.param("nvidia.com/gpu", "whole", id="a whole GPU"),
        pytest.param("nvidia.com/gpu.shared", "share", id="a share"),
        pytest.param("nvidia.com/mig-1g.10gb", "slice", id="a MIG slice by its prefix"),
        pytest.param("nvidia.com/mig-1g.10gb.me", "slice", id="a MIG slice with media engines"),
        pytest.param("amd.com/gpu", "whole", id="another vendor"),
    ],
)
def test_this_is_a_gpu(resource: str, kind: GpuKind) -> None:
    assert GPUS.kind(resource) == kind
    assert GPUS.among(["cpu", resource, "memory"]) == [resource]


def test_the_first_name_that_matches_decides_the_kind() -> None:
    assert Gpus((GpuName("a/b*", "share"), GpuName("a/bc", "whole"))).kind("a/bc") == "share"


def test_the_order_of_resources_stays() -> None:
    assert GPUS.among(["nvidia.com/mig-b", "cpu", "amd.com/gpu", "nvidia.com/gpu"]) == [
        "nvidia.com/mig-b",
        "amd.com/gpu",
        "nvidia.com/gpu",
    ]


def test_names_that_tenants_invent_do_not_fill_the_memory() -> None:
    gpus = Gpus((GpuName("nvidia.com/mig-*", "slice"),))
    for number in range(50_000):
        assert gpus.kind(f"nvidia.com/mig-{number}") == "slice"
        assert gpus.kind(f"tenant.example/{number}") is None
    assert len(gpus._kinds) <= 4096
    long = "nvidia.com/mig-" + "1" * 303
    assert gpus.kind(long) is None, "Kubernetes takes no name of this length"
    assert long not in gpus._kinds


def test_a_vendor_is_the_domain_of_a_resource() -> None:
    assert [vendor(r) for r in ("nvidia.com/gpu", "gpu.intel.com/i915", "cpu")] == [
        "nvidia.com",
        "gpu.intel.com",
        "cpu",
    ]
