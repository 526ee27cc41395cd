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
ALLOWED: dict[str, Case] = {
    "the same version": image(CUDA_13.replace("13.0", "12.4")),
    "an older one": image(CUDA_13.replace("13.0", "11.8")),
    "a newer one of the same major version": image(CUDA_13.replace("13.0", "12.9")),
    "of two drivers one is new enough": image(CUDA_13, R550, R580),
    "of one node it is not known": image(CUDA_13, R550, {}),
    "nobody knows it": image(CUDA_13, {}),
    "labels that are no version": image(CUDA_13, {f"{OF}cuda.runtime-version.major": "twelve"}),
    "no node could take it, which gpuFits says": case(pod(containers=[container(image=CUDA_13)]), nodes=Obstructed()),
    "the state of the cluster is not known": case(pod(containers=[container(image=CUDA_13)])),
    "it brings cuda-compat, on a GPU for data centres": image(BASE),
    "PyTorch's image for developers, which is built on that": image(CUDA_13.replace("runtime", "devel")),
    "an image that does not tell its CUDA": image("nvcr.io/nvidia/pytorch:25.08-py3", driver("11.4")),
    "one of a similar name": image("team/notnvidia/cuda:13.0.2-base", driver(model=RTX)),
    "a tag without a version": image("nvidia/cuda:latest", driver(model=RTX)),
    "by its digest alone": image("nvidia/cuda@sha256:13.0.2-", driver(model=RTX)),
    "a registry with a port": image("registry:13.0/nvidia/cuda", driver(model=RTX)),
    "from before minor version compatibility": image("nvidia/cuda:10.2-base", driver("9.0", model=RTX)),
    "without a GPU": image(CUDA_13, gpu=None),
    "a GPU of another vendor": image(CUDA_13, gpu=None, limits={"amd.com/gpu": "1"}),
    "a claim, by which the node is chosen": image(CUDA_13, resourceClaims=[{"name": "gpu"}]),
    "a requirement that the driver meets": requires("cuda>=12.4"),
    "one of several terms holds": requires(_BRANDS),
    "a term may hold, as nobody knows the brand": requires("cuda>=13.0 brand=tesla"),
    "the driver is not told": requires("driver>=580", driver(version="")),
    "a requirement that nobody can read": requires("cuda at least 13"),
    "a requirement from elsewhere": requires({"configMapKeyRef": {"name": "a", "key": "b"}}),
    "requirements are switched off": requires("cuda>=13.0", NVIDIA_DISABLE_REQUIRE="1"),
    "a requirement too long to be looked at": requires("cuda>=13.0 " * 500),
    "CUDA_VERSION of the driver": image("mine:1", env={"CUDA_VERSION": "12.9.1"}),
    "CUDA_VERSION of an image that may bring cuda-compat": image("mine:1", env={"CUDA_VERSION": "13.0.1"}),
    "CUDA_VERSION that is something else": image("mine:1", driver(model=RTX), env={"CUDA_VERSION": "cu130"}),
    "a tag counts before CUDA_VERSION": image(
        CUDA_13.replace("13.0", "12.4"), driver(model=RTX), env={"CUDA_VERSION": "13.0.1"}
    ),
}


def message(seen: str, field: str = "image", newest: str = "CUDA 12.4 by driver 550.54.15") -> list[str]:
    return [
        f'spec.containers[0].{field}: saw {seen} in container "main", wanted a CUDA that the driver of a node for the '
        f"pod knows: the newest is {newest}. Take an image for an older CUDA, or ask those who run this cluster for a newer driver."
    ]


REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a newer major version": (image(), message(f'CUDA 13 of "{CUDA_13}"')),
    "of a mirror": (image(f"registry:5000/hub/{CUDA_13}"), message(f'CUDA 13 of "registry:5000/hub/{CUDA_13}"')),
    "with a digest": (
        image(f"nvidia/cuda:13.0.2-base@sha256:{'0' * 8}", driver(model=RTX)),
        message(f'CUDA 13 of "nvidia/cuda:13.0.2-base@sha256:{"0" * 8}"'),
    ),
    "several drivers, and none is new enough": (
        image(CUDA_13, driver("11.4", "470.82.01"), R550),
        message(f'CUDA 13 of "{CUDA_13}"'),
    ),
    "labels of older releases, without the driver": (
        image(CUDA_13, driver(version="", old=True)),
        message(f'CUDA 13 of "{CUDA_13}"', newest="CUDA 12.4"),
    ),
    "it brings cuda-compat, which does not work with a GeForce": (
        image(BASE, driver(model=RTX)),
        message(f'CUDA 13 of "{BASE}"'),
    ),
    "CUDA_VERSION, on a GeForce": (
        image("mine:1", driver(model=RTX), env={"CUDA_VERSION": "13.0.1"}),
        message('CUDA 13 of "13.0.1"', "env[0]"),
    ),
    "a requirement of a newer minor version": (requires("cuda>=12.8"), message('"cuda>=12.8"', "env[0]")),
    "one of each term fails": (
        requires("cuda>=13.0 brand=tesla,driver>=535,driver<536"),
        message('"cuda>=13.0 brand=tesla,driver>=535,driver<536"', "env[0]"),
    ),
    "another driver is required": (requires("driver!=550.54.15"), message('"driver!=550.54.15"', "env[0]")),
}


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
