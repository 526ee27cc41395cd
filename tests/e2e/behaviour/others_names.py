"""GPUs under the names of other projects: we add what every GPU pod gets, and leave the node to whoever serves them."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import made, pod
from tests.e2e.behaviour.case import Case, Json, on, recorded, runs, told, waits

A, B = node("a"), node("b")


def asking(limits: dict[str, str], **more: Any) -> Json:
    return pod("one", 0, container={"resources": {"limits": limits}} if limits else None, **more)


def driver(of: str, *nodes: str) -> list[Json]:
    """A DRA driver's devices on nodes."""
    devices = [{"name": f"gpu-{n}"} for n in range(8)]

    def on(name: str) -> Json:
        pool = {"name": f"@{name}", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": of, "nodeName": f"@{name}", "pool": pool, "devices": devices}
        return made("ResourceSlice", f"@slice-{name}", spec=spec)

    return [on(name) for name in nodes]


NVIDIA = "gpu.nvidia.com"
CLASS = made("DeviceClass", "@gpus", spec={"selectors": [{"cel": {"expression": f"device.driver == '{NVIDIA}'"}}]})
REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "@gpus"}}]}}
CLAIM = made("ResourceClaim", "mine", spec=REQUEST)
TEMPLATE = made("ResourceClaimTemplate", "mine", spec={"spec": REQUEST})


def claiming(name: str, **how: str) -> Json:
    found = pod(name, 0, resourceClaims=[{"name": "gpu", **how}])
    found["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return found


GPU = "nvidia.com/gpu"
HAMI, VOLCANO, KAI, RUNAI = (
    {"schedulerName": name} for name in ("hami-scheduler", "volcano", "kai-scheduler", "runai-scheduler")
)
BY_OTHERS: list[tuple[str, dict[str, str], Json]] = [
    (
        "HAMi: a GPU with a part of its cores",
        {GPU: "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
        HAMI,
    ),
    ("HAMi: a part of the memory in percent", {GPU: "1", "nvidia.com/gpumem-percentage": "50"}, HAMI),
    ("Volcano: virtual GPUs", {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000"}, VOLCANO),
    ("KAI: half a GPU", {}, KAI | {"annotations": {"gpu-fraction": "0.5"}}),
    ("KAI: whole GPUs", {GPU: "2"}, KAI),
    ("Run:ai: memory of a GPU", {}, RUNAI | {"annotations": {"gpu-memory": "4000"}}),
]
"""Pods for schedulers that are not there."""
BY_NOBODY = [
    (
        "HAMi: a GPU with so much memory, without HAMi's scheduler",
        {GPU: "1", "nvidia.com/gpumem": "3000"},
        waits("one"),
    ),
    ("Aliyun: memory of a GPU", {"aliyun.com/gpu-mem": "3"}, recorded("one", **{"class": "development"})),
    ("a name that is nearly NVIDIA's", {"nvdia.com/gpu": "1"}, told("one", "nvidia.com/gpu")),
    ("a name without its domain", {"nvidia/gpu": "1"}, told("one", "nvidia.com/gpu")),
    ("a name in the plural", {"amd.com/gpus": "1"}, told("one", "amd.com/gpu")),
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
        there=[CLASS, *driver(NVIDIA, "b"), CLAIM],
    ),
    Case(
        "DRA: a claim by a template",
        [A, B],
        [claiming("one", resourceClaimTemplateName="mine")],
        [on("b"), recorded("one", node="b")],
        there=[CLASS, *driver(NVIDIA, "b"), TEMPLATE],
    ),
    Case(
        "DRA: a claim that nobody serves yet",
        [A],
        [claiming("one", resourceClaimName="mine")],
        [on("a")],
        there=[CLASS, CLAIM],
        later=driver(NVIDIA, "a"),
    ),
    Case("a pod without a GPU is left alone", [A], [pod("one", 0)], [runs("one")]),
]
