"""GPUs under the names of other projects: we add what every GPU pod gets, and leave the node to whoever serves them."""

from __future__ import annotations

from tests.controlplane.nodes import node
from tests.controlplane.objects import made, pod
from tests.e2e.behaviour.case import Case, Json, on, recorded, runs, told, waits

A, B = node("a"), node("b")


def asking(name: str, scheduler: str = "", annotations: dict[str, str] | None = None, **limits: str) -> Json:
    """A pod with these limits: `volcano.sh/vgpu-number` as volcano_sh__vgpu_number."""
    found = pod(name, 0, annotations=annotations)
    if limits:
        named = {key.replace("__", "/").replace("_sh", ".sh").replace("_com", ".com"): v for key, v in limits.items()}
        found["spec"]["containers"][0]["resources"] = {"limits": {k.replace("_", "-"): v for k, v in named.items()}}
    if scheduler:
        found["spec"]["schedulerName"] = scheduler
    return found


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


CASES = [
    Case(
        "HAMi: a GPU with so much memory",
        [A],
        [asking("one", nvidia_com__gpu="1", nvidia_com__gpumem="3000")],
        [waits("one")],
        without=[waits("one")],
    ),
    Case(
        "HAMi: a GPU with a part of its cores, by HAMi's scheduler",
        [A],
        [asking("one", "hami-scheduler", nvidia_com__gpu="1", nvidia_com__gpumem="3000", nvidia_com__gpucores="30")],
        [waits("one"), recorded("one", why="another scheduler")],
    ),
    Case(
        "HAMi: a part of the memory in percent",
        [A],
        [asking("one", "hami-scheduler", nvidia_com__gpumem_percentage="50", nvidia_com__gpu="1")],
        [waits("one"), recorded("one", why="another scheduler")],
    ),
    Case(
        "Volcano: virtual GPUs",
        [A],
        [asking("one", "volcano", volcano_sh__vgpu_number="1", volcano_sh__vgpu_memory="3000")],
        [waits("one"), recorded("one", why="another scheduler")],
    ),
    Case(
        "Aliyun: memory of a GPU",
        [A],
        [asking("one", aliyun_com__gpu_mem="3")],
        [waits("one"), recorded("one", **{"class": "development"})],
        without=[waits("one")],
    ),
    Case(
        "KAI: half a GPU",
        [A],
        [asking("one", "kai-scheduler", {"gpu-fraction": "0.5"})],
        [waits("one"), recorded("one", why="another scheduler")],
    ),
    Case(
        "Run:ai: memory of a GPU",
        [A],
        [asking("one", "runai-scheduler", {"gpu-memory": "4000"})],
        [waits("one"), recorded("one", why="another scheduler")],
    ),
    Case(
        "KAI: whole GPUs",
        [A],
        [asking("one", "kai-scheduler", nvidia_com__gpu="2")],
        [waits("one"), recorded("one", why="another scheduler")],
    ),
    Case(
        "DRA: a claim by its name",
        [A, B],
        [claiming("one", resourceClaimName="mine")],
        [on("b"), recorded("one", why="GPUs only through DRA")],
        there=[CLASS, *driver(NVIDIA, "b"), CLAIM],
    ),
    Case(
        "DRA: a claim by a template",
        [A, B],
        [claiming("one", resourceClaimTemplateName="mine")],
        [on("b"), recorded("one", why="GPUs only through DRA")],
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
    Case(
        "a name that is nearly NVIDIA's",
        [A],
        [asking("one", nvdia_com__gpu="1")],
        [waits("one"), told("one", "nvidia.com/gpu")],
        without=[waits("one")],
    ),
    Case(
        "a name without its domain",
        [A],
        [asking("one", nvidia__gpu="1")],
        [waits("one"), told("one", "nvidia.com/gpu")],
        without=[waits("one")],
    ),
    Case(
        "a name in the plural",
        [A],
        [asking("one", amd_com__gpus="1")],
        [waits("one"), told("one", "amd.com/gpu")],
        without=[waits("one")],
    ),
    Case("a pod without a GPU is left alone", [A], [pod("one", 0)], [runs("one")]),
]
