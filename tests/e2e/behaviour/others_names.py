"""GPUs under the names of other projects: we add what every GPU pod gets, and leave the node to whoever serves them."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import made, pod
from tests.e2e.behaviour.case import Case, Json, as_chosen, on, recorded, runs, told, waits
from tests.e2e.behaviour.made import goes_to_b

A, B = node("a"), node("b")


def asking(limits: dict[str, str], **more: Any) -> Json:
    return pod("one", 0, container={"resources": {"limits": limits}} if limits else None, **more)


def devices(node: str) -> Json:
    """Those that a DRA driver offers on it."""
    pool = {"name": f"@{node}", "generation": 1, "resourceSliceCount": 1}
    found = [{"name": f"gpu-{n}"} for n in range(8)]
    spec = {"driver": NVIDIA, "nodeName": f"@{node}", "pool": pool, "devices": found}
    return made("ResourceSlice", f"@slice-{node}", spec=spec)


NVIDIA = "gpu.nvidia.com"
CLASS = made("DeviceClass", "@gpus", spec={"selectors": [{"cel": {"expression": f"device.driver == '{NVIDIA}'"}}]})
REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "@gpus"}}]}}
CLAIM = made("ResourceClaim", "mine", spec=REQUEST)


def claiming(name: str, **how: str) -> Json:
    found = pod(name, 0, resourceClaims=[{"name": "gpu", **how}])
    found["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return found


GPU = "nvidia.com/gpu"
HAMI, VOLCANO, KAI = ({"schedulerName": name} for name in ("hami-scheduler", "volcano", "kai-scheduler"))
BY_OTHERS: list[tuple[str, dict[str, str], Json]] = [
    (
        "HAMi: a GPU with a part of its cores",
        {GPU: "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        HAMI,
    ),
    ("Volcano: virtual GPUs", {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000"}, VOLCANO),
    ("KAI: half a GPU", {}, KAI | {"annotations": {"gpu-fraction": "0.5"}}),
    (
        "KAI: memory of a GPU for one container",
        {},
        KAI | {"annotations": {"nvidia.com/container.main.gpu-memory.request": "8Gi"}},
    ),
]
"""Pods for schedulers that are not there."""
BY_NOBODY = [
    (
        "HAMi: a GPU with so much memory, without HAMi's scheduler",
        {GPU: "1", "nvidia.com/gpumem": "3000"},
        waits("one"),
    ),
    ("a name that is nearly NVIDIA's", {"nvdia.com/gpu": "1"}, told("one", "nvidia.com/gpu")),
]
"""Pods that ask for what no node has."""
CASES = [
    *[
        Case(said, [A], [asking(limits, **how)], [waits("one"), recorded("one", why="another scheduler")])
        for said, limits, how in BY_OTHERS
    ],
    *[
        Case(said, [A], [asking(limits)], [waits("one"), check], without=[waits("one")])
        for said, limits, check in BY_NOBODY
    ],
    Case(
        "DRA: a claim by its name",
        [A, B],
        [claiming("one", resourceClaimName="mine")],
        [on("b"), recorded("one", node="b")],
        there=[CLASS, devices("b"), CLAIM],
    ),
    Case(
        "DRA: a claim that nobody serves yet",
        [A],
        [claiming("one", resourceClaimName="mine")],
        [on("a")],
        there=[CLASS, CLAIM],
        later=[devices("a")],
    ),
    goes_to_b(
        "GPUs that a device plugin and DRA both hand out are taken last", there=[devices("a")], also=[as_chosen()]
    ),
    Case("a pod without a GPU is left alone", [A], [pod("one", 0)], [runs("one")]),
]
