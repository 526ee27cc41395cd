"""A cluster whose GPUs come in every way: by a device plugin, DRA, HAMi, Volcano and KAI."""

from typing import Any

from tests.cli.objects import Json, of_kind, placed
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.devices import dra
from tests.devices.kai import part, reservation
from tests.placement.claiming import MIG, partitioned
from webhook.devices.source_kai import KAI
from webhook.devices.source_vgpu import VGPUS

HAMI, VOLCANO = VGPUS

GPU, DRIVER = "nvidia.com/gpu", dra.DRIVER


def claimed(name: str, on: str, device: str, *users: str, **more: Any) -> Json:
    return of_kind("ResourceClaim", dra.claim(name, dra.exactly(**more), on=on, has=[device], users=users))


def claiming(name: str, claim: str, on: str) -> Json:
    """A pod whose claim was made of a template."""
    made = pod(name, 0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    made["metadata"]["namespace"] = "team-a"
    return placed(made, on, resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": claim}])


def shared_pod(name: str, on: str | None, limits: dict[str, str], notes: dict[str, str]) -> Json:
    return placed(pod(name, 0, limits=limits, requests=limits, annotations=notes if on else None), on)


HAMI_PART = {GPU: "1", "nvidia.com/gpumem": "20000", "nvidia.com/gpucores": "25"}
VOLCANO_PART = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "8000"}
BARE = {GPU: "0"}
CLASSES = [
    of_kind("DeviceClass", dra.device_class(resource=GPU)),
    of_kind("DeviceClass", dra.device_class(MIG, "mig")),
    of_kind("ResourceClaimTemplate", dra.template("one", dra.exactly())),
    of_kind("ResourceClaimTemplate", dra.template("four", dra.exactly(4))),
    of_kind("ResourceClaimTemplate", dra.template("part", dra.exactly(of=MIG))),
]
PLUGIN = [node("plugin", 8), placed(pod("trainer", 3), "plugin")]
DEVICES = [
    node("dra", resources=BARE),
    of_kind("ResourceSlice", dra.gpus_of("dra", 4)),
    claimed("one-x", "dra", "gpu-0", "uid-by-claim"),
    claiming("by-claim", "one-x", "dra"),
    claimed("made", "dra", "gpu-1", "uid-by-name"),
    placed(pod("by-name", 1), "dra", extendedResourceClaimStatus={"resourceClaimName": "made"}),
]
PARTITIONS = [
    node("mig", resources=BARE),
    of_kind("ResourceSlice", partitioned("mig", 2)),
    claimed("part-x", "mig", "mig-0-0", "uid-by-part", of=MIG),
    claiming("by-part", "part-x", "mig"),
]
SHARED = [
    node(
        "hami",
        2,
        replicas=5,
        annotations={HAMI.said.registered: "".join(f"GPU-{n},5,80000,100,A100,0,true:" for n in range(2))},
    ),
    shared_pod("hami-part", "hami", HAMI_PART, {HAMI.said.assigned[0]: "GPU-0,NVIDIA,20000,25:;"}),
    node(
        "volcano",
        resources={**BARE, "volcano.sh/vgpu-number": "20"},
        annotations={VOLCANO.said.registered: "".join(f"GPU-{n},10,16000,V100,true,hami-core:" for n in range(2))},
    ),
    shared_pod("volcano-part", "volcano", VOLCANO_PART, {VOLCANO.said.assigned[0]: "GPU-1,NVIDIA,8000,0:;"}),
]
BY_KAI = [
    node("kai", 4, labels={"nvidia.com/gpu.memory": "16000"}),
    *[reservation(group, "kai") for group in "gh"],
    part("kai-half", "0.5", "g", on="kai"),
    part("kai-mib", "4000Mi", "h", on="kai", key="nvidia.com/container.main.gpu-memory.limit"),
    placed(pod("kai-whole", 1), "kai"),
]
BOTH = [
    node("both", 4),
    of_kind("ResourceSlice", dra.gpus_of("both", 4)),
    placed(pod("by-plugin", 1), "both"),
    claimed("one-y", "both", "gpu-3", "uid-beside"),
    claiming("beside", "one-y", "both"),
]
EVERYTHING = [*CLASSES, *PLUGIN, *DEVICES, *PARTITIONS, *SHARED, *BY_KAI, *BOTH]
WANTED = {
    "plugin": {GPU: (8, 3)},
    "dra": {DRIVER: (4, 2)},
    "mig": {DRIVER: (2, 0.25)},
    "hami": {HAMI.name: (2, 0.25)},
    "volcano": {VOLCANO.name: (2, 0.5)},
    "kai": {GPU: (2, 1), KAI.name: (2, 0.75)},
    "both": {GPU: (3, 1), DRIVER: (1, 1)},
}
"""Total and allocated by node and resource."""
