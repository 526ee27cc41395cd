"""Images for a newer CUDA than the drivers of the nodes."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders import Case, Obstructed, case, container
from tests.controlplane.objects import pod
from tests.test_hostile import counted
from webhook.rules.cuda_driver import CudaDriver

RULE = CudaDriver()
OF = "nvidia.com/"
A100, RTX = "NVIDIA-A100-SXM4-80GB", "NVIDIA-GeForce-RTX-4090"
CUDA_13 = "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"
BASE = "nvidia/cuda:13.0.2-base-ubuntu24.04"


def driver(cuda: str = "12.4", version: str = "550.54.15", model: str = A100, old: bool = False) -> dict[str, str]:
    """The labels of a node with this driver."""
    major, minor = cuda.split(".")
    of = f"{OF}cuda.runtime" + ("" if old else "-version")
    told = {f"{of}.major": major, f"{of}.minor": minor, f"{OF}gpu.product": model}
    return told | ({f"{OF}cuda.driver-version.full": version} if version else {})


R550, R580 = driver(), driver("13.0", "580.95.05")


def image(of: str = CUDA_13, *nodes: Mapping[str, str], gpu: int | None = 1, **more: Any) -> Case:
    """A container of this image, and the labels of the nodes that could take its pod."""
    fields = {key: more.pop(key) for key in ("env", "limits") if key in more}
    made = pod(containers=[container(gpu=gpu, image=of, **fields)], **more)
    return case(made, nodes=Obstructed(labels=nodes or (R550,)))


def requires(requirement: Any, *nodes: Mapping[str, str], **env: Any) -> Case:
    return image("mine:1", *nodes, env={"NVIDIA_REQUIRE_CUDA": requirement, **env})


_BRANDS = "cuda>=13.0 brand=unknown,driver>=535,driver<536 brand=tesla,driver>=550,driver<551"
ALLOWED = [
    pytest.param(image(CUDA_13.replace("13.0", "12.4")), id="the same version"),
    pytest.param(image(CUDA_13.replace("13.0", "11.8")), id="an older one"),
    pytest.param(image(CUDA_13.replace("13.0", "12.9")), id="a newer one of the same major version"),
    pytest.param(image(CUDA_13, R550, R580), id="of two drivers one is new enough"),
    pytest.param(image(CUDA_13, R550, {}), id="of one node it is not known"),
    pytest.param(image(CUDA_13, {}), id="nobody knows it"),
    pytest.param(image(CUDA_13, {f"{OF}cuda.runtime-version.major": "twelve"}), id="labels that are no version"),
    pytest.param(
        case(pod(containers=[container(image=CUDA_13)]), nodes=Obstructed()),
        id="no node could take it, which gpuFits says",
    ),
    pytest.param(case(pod(containers=[container(image=CUDA_13)])), id="the state of the cluster is not known"),
    pytest.param(image(BASE), id="it brings cuda-compat, on a GPU for data centres"),
    pytest.param(
        image(CUDA_13.replace("runtime", "devel")), id="PyTorch's image for developers, which is built on that"
    ),
    pytest.param(image("nvcr.io/nvidia/pytorch:25.08-py3", driver("11.4")), id="an image that does not tell its CUDA"),
    pytest.param(image("team/notnvidia/cuda:13.0.2-base", driver(model=RTX)), id="one of a similar name"),
    pytest.param(image("nvidia/cuda:latest", driver(model=RTX)), id="a tag without a version"),
    pytest.param(image("nvidia/cuda@sha256:13.0.2-", driver(model=RTX)), id="by its digest alone"),
    pytest.param(image("registry:13.0/nvidia/cuda", driver(model=RTX)), id="a registry with a port"),
    pytest.param(
        image("nvidia/cuda:10.2-base", driver("9.0", model=RTX)), id="from before minor version compatibility"
    ),
    pytest.param(image(CUDA_13, gpu=None), id="without a GPU"),
    pytest.param(image(CUDA_13, gpu=None, limits={"amd.com/gpu": "1"}), id="a GPU of another vendor"),
    pytest.param(image(CUDA_13, resourceClaims=[{"name": "gpu"}]), id="a claim, by which the node is chosen"),
    pytest.param(requires("cuda>=12.4"), id="a requirement that the driver meets"),
    pytest.param(requires(_BRANDS), id="one of several terms holds"),
    pytest.param(requires("cuda>=13.0 brand=tesla"), id="a term may hold, as nobody knows the brand"),
    pytest.param(requires("driver>=580", driver(version="")), id="the driver is not told"),
    pytest.param(requires("cuda at least 13"), id="a requirement that nobody can read"),
    pytest.param(requires({"configMapKeyRef": {"name": "a", "key": "b"}}), id="a requirement from elsewhere"),
    pytest.param(requires("cuda>=13.0", NVIDIA_DISABLE_REQUIRE="1"), id="requirements are switched off"),
    pytest.param(requires("cuda>=13.0 " * 500), id="a requirement too long to be looked at"),
    pytest.param(image("mine:1", env={"CUDA_VERSION": "12.9.1"}), id="CUDA_VERSION of the driver"),
    pytest.param(
        image("mine:1", env={"CUDA_VERSION": "13.0.1"}), id="CUDA_VERSION of an image that may bring cuda-compat"
    ),
    pytest.param(
        image("mine:1", driver(model=RTX), env={"CUDA_VERSION": "cu130"}), id="CUDA_VERSION that is something else"
    ),
    pytest.param(
        image(CUDA_13.replace("13.0", "12.4"), driver(model=RTX), env={"CUDA_VERSION": "13.0.1"}),
        id="a tag counts before CUDA_VERSION",
    ),
]


def message(seen: str, field: str = "image", newest: str = "CUDA 12.4 by driver 550.54.15") -> list[str]:
    return [
        f'spec.containers[0].{field}: saw {seen} in container "main", wanted a CUDA that the driver of a node for the '
        f"pod knows: the newest is {newest}. Take an image for an older CUDA, or ask those who run this cluster for a newer driver."
    ]


REFUSED = [
    pytest.param(image(), message(f'CUDA 13 of "{CUDA_13}"'), id="a newer major version"),
    pytest.param(
        image(f"registry:5000/hub/{CUDA_13}"), message(f'CUDA 13 of "registry:5000/hub/{CUDA_13}"'), id="of a mirror"
    ),
    pytest.param(
        image(f"nvidia/cuda:13.0.2-base@sha256:{'0' * 8}", driver(model=RTX)),
        message(f'CUDA 13 of "nvidia/cuda:13.0.2-base@sha256:{"0" * 8}"'),
        id="with a digest",
    ),
    pytest.param(
        image(CUDA_13, driver("11.4", "470.82.01"), R550),
        message(f'CUDA 13 of "{CUDA_13}"'),
        id="several drivers, and none is new enough",
    ),
    pytest.param(
        image(CUDA_13, driver(version="", old=True)),
        message(f'CUDA 13 of "{CUDA_13}"', newest="CUDA 12.4"),
        id="labels of older releases, without the driver",
    ),
    pytest.param(
        image(BASE, driver(model=RTX)),
        message(f'CUDA 13 of "{BASE}"'),
        id="it brings cuda-compat, which does not work with a GeForce",
    ),
    pytest.param(
        image("mine:1", driver(model=RTX), env={"CUDA_VERSION": "13.0.1"}),
        message('CUDA 13 of "13.0.1"', "env[0]"),
        id="CUDA_VERSION, on a GeForce",
    ),
    pytest.param(
        requires("cuda>=12.8"), message('"cuda>=12.8"', "env[0]"), id="a requirement of a newer minor version"
    ),
    pytest.param(
        requires("cuda>=13.0 brand=tesla,driver>=535,driver<536"),
        message('"cuda>=13.0 brand=tesla,driver>=535,driver<536"', "env[0]"),
        id="one of each term fails",
    ),
    pytest.param(
        requires("driver!=550.54.15"), message('"driver!=550.54.15"', "env[0]"), id="another driver is required"
    ),
]


@pytest.mark.parametrize(
    "hostile",
    [
        {"image": "pytorch/pytorch:" + "-cuda13.0" * 50},
        {"image": "nvidia/cuda:" + "1." * 100_000},
        {"image": "mine", "env": {"NVIDIA_REQUIRE_CUDA": "cuda>13," * 50}},
        {"image": "mine", "env": {"NVIDIA_REQUIRE_CUDA": " " * 1_000_000}},
        {"image": "mine", "env": {"CUDA_VERSION": "9" * 1_000_000}},
    ],
)
def test_what_a_tenant_writes_is_read_with_a_bounded_number_of_calls(hostile: dict[str, Any]) -> None:
    made = pod(containers=[container(str(number), **hostile) for number in range(256)])
    nodes = Obstructed(labels=[driver(f"12.{minor}", f"5{minor}.1") for minor in range(100)])
    with counted() as calls:
        case(made, nodes=nodes).findings(RULE)
    assert calls.count < 200_000
