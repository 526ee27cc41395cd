"""GPUs that come by DRA, as `nodes` shows them: each once, with its model and with the pods that have it."""

import json
from pathlib import Path

import pytest

from tests.cli.objects import Json, call, document, of_kind, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.devices import dra
from tests.placement.claiming import MIG, partitioned

PLAIN = node("n", resources={"nvidia.com/gpu": "0"})
CLASSES = [of_kind("DeviceClass", each) for each in (dra.device_class(), dra.device_class(MIG, "mig"))]
FOUR = of_kind("ResourceSlice", dra.gpus_of("n", 4))
SPLIT = of_kind("ResourceSlice", partitioned("n", 2))


def claim(*devices: str, users: tuple[str, ...] = (), name: str = "c", admin: bool = False) -> Json:
    made = dra.claim(name, dra.exactly(len(devices)), on="n", has=devices, users=users, admin=admin)
    return of_kind("ResourceClaim", made)


def amounts(total: float, allocated: float, free: float) -> Json:
    return {dra.DRIVER: {"total": total, "allocated": allocated, "promised": 0, "free": free, "unusable": 0}}


@pytest.mark.parametrize(
    ("objects", "wanted"),
    [
        pytest.param([FOUR], (4, 0, 4), id="none claimed"),
        pytest.param([FOUR, claim("gpu-0", "gpu-2")], (4, 2, 2), id="two in one claim"),
        pytest.param([FOUR, claim("gpu-9")], (4, 0, 4), id="a claim of a device that does not exist any more"),
        pytest.param([FOUR, claim("gpu-0", admin=True)], (4, 0, 4), id="admin access allocates nothing"),
        pytest.param([FOUR, of_kind("ResourceSlice", dra.device_slice("n", [dra.gpu(0)], name="new", generation=2))], (1, 0, 1), id="only the newest generation of a pool"),
        pytest.param([SPLIT], (2, 0, 2), id="GPUs with their MIG instances"),
        pytest.param([SPLIT, claim("mig-0-0"), claim("mig-0-1", name="d")], (2, 0.5, 1.5), id="two instances of one GPU"),
    ],
)  # fmt: skip
def test_gpus_that_come_by_dra_are_counted(
    tmp_path: Path, objects: list[Json], wanted: tuple[float, float, float]
) -> None:
    (found,) = document("top", "--from", write(tmp_path, PLAIN, *CLASSES, *objects))
    assert (found["health"], found["gpus"]) == ("healthy", amounts(*wanted))


def test_a_pod_has_the_gpus_of_its_claims(tmp_path: Path) -> None:
    """One pod names the claim. For the other, which requests an extended resource, the scheduler made it. Here both share one."""
    pods = [placed(pod(name, gpus), "n") for name, gpus in (("by-claim", 0), ("by-name", 1))]
    for each in pods:
        each["metadata"]["namespace"] = "team-a"
    file = write(tmp_path, PLAIN, *CLASSES, *pods, FOUR, claim("gpu-0", users=("uid-by-claim", "uid-by-name")))
    (found,) = document("top", "--from", file)
    assert found["gpus"] == amounts(4, 1, 3)
    has = {dra.DRIVER: 1}
    assert [(each["name"], each["gpus"]) for each in found["pods"]] == [("by-claim", has), ("by-name", has)]
    assert [each["shared"] for each in found["pods"]] == [{"team-a/c": has}] * 2
    (of,) = document("top", "namespaces", "--from", file)
    assert of == {"namespace": "team-a", "pods": 2, "nodes": 1, "since": None, "gpus": has}


def test_without_a_label_the_model_is_what_the_driver_tells(tmp_path: Path) -> None:
    slices = of_kind("ResourceSlice", dra.gpus_of("n", 1, "NVIDIA H100 PCIe"))
    file = write(tmp_path, node("n", 0), *CLASSES, slices)
    assert [each["model"] for each in document("top", "--from", file)] == ["NVIDIA-H100-PCIe"]
    assert call("top", "--model", "h100", "--from", file).exit_code == 0


def test_without_claims_gpus_that_come_by_dra_are_not_counted(tmp_path: Path) -> None:
    file = write(tmp_path, PLAIN, FOUR, kinds=["Node", "Pod", "ResourceSlice"])
    result = call("top", "--from", file, "-o", "json")
    assert json.loads(result.stdout)["items"][0]["gpus"] == {}
    assert result.stderr == f"warning: {file} has no resourceclaims: GPUs that come by DRA are not counted\n"
