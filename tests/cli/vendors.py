"""Clusters whose nodes say in every way that the catalogue knows what one of a resource is: neighbours with the same names."""

from collections.abc import Mapping

from tests.cli.objects import Json, placed
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod

GPU, AMD, NEURON = "nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron"
GKE, ASCEND = "cloud.google.com/gke-", "huawei.com/Ascend910"
_PARTITION = "amd.com/gpu.compute-memory-partition"
Held = Mapping[str, tuple[int, float]]
"""Of each resource: the total, and what the pods there have."""


def _of(
    name: str, kind: str, held: Held, labels: Mapping[str, str | None] | None = None, *, gone: str = ""
) -> tuple[Json, str, Held]:
    """A node, what one of its GPUs is, and what it has. `gone`: a resource that its device plugin has withdrawn."""
    made = node(name, 0, resources={of: str(total) for of, (total, _) in held.items()}, labels=labels)
    if gone:
        made["status"]["allocatable"][gone] = "0"
    return made, kind, held


NODES = [
    _of("whole", "whole", {GPU: (8, 3)}, {"nvidia.com/gpu.product": "NVIDIA-H100"}),
    _of("mig-single", "slice", {GPU: (56, 2)}, {"nvidia.com/gpu.product": "NVIDIA-H100-MIG-1g.10gb"}),
    _of("mig-mixed", "", {GPU: (0, 0), "nvidia.com/mig-1g.10gb": (28, 0), "nvidia.com/mig-3g.40gb": (8, 1)}),
    _of("mig-shared", "share", {GPU: (14, 1)}, {"nvidia.com/gpu.product": "NVIDIA-H100-MIG-1g.10gb-SHARED", "nvidia.com/gpu.replicas": "2"}),
    _of("gke-whole", "whole", {GPU: (4, 1)}, {f"{GKE}accelerator": "nvidia-tesla-t4"}),
    _of("gke-shared", "share", {GPU: (16, 1)}, {f"{GKE}gpu-sharing-strategy": "time-sharing", f"{GKE}max-shared-clients-per-gpu": "8"}),
    _of("gke-parts", "slice", {GPU: (14, 2)}, {f"{GKE}gpu-partition-size": "1g.10gb"}),
    _of("gke-shared-parts", "share", {GPU: (21, 0)}, {f"{GKE}gpu-partition-size": "2g.20gb", f"{GKE}max-shared-clients-per-gpu": "7"}),
    _of("renamed", "", {GPU: (0, 0), "nvidia.com/gpu.shared": (20, 1)}),
    _of("neuron", "", {NEURON: (16, 3.5), f"{NEURON}device": (16, 3.5), f"{NEURON}core": (32, 7)}),
    _of("amd", "whole", {AMD: (8, 2)}, {_PARTITION: "spx_nps1"}),
    _of("amd-cpx", "slice", {AMD: (64, 8)}, {_PARTITION: "cpx_nps4"}),
    _of("amd-mixed", "", {"amd.com/cpx_nps4": (32, 4), "amd.com/dpx_nps2": (4, 1), "amd.com/spx_nps1": (2, 1)}),
    _of("intel", "", {"gpu.intel.com/i915": (4, 1), "gpu.intel.com/xe": (2, 1)}),
    _of("ascend", "", {ASCEND: (6, 1), f"{ASCEND}-4c": (4, 2), f"{ASCEND}-12c.3cpu.32g": (2, 0)}),
    _of("ascend-310p", "", {"huawei.com/Ascend310P-VPro": (2, 1)}),
    _of("tpu", "", {"google.com/tpu": (4, 4)}),
    _of("passthrough", "", {"nvidia.com/GA102GL_A10": (4, 1)}),
    _of("mlu", "", {"cambricon.com/mlu370": (4, 1), "cambricon.com/mlu370.share": (8, 3)}),
    _of("gone", "", {GPU: (16, 0)}, gone=GPU),
]  # fmt: skip
_CORES = {f"{NEURON}core": 3, NEURON: 2}
"""Three cores are one and a half of the chips, and two chips are four cores."""


def _pods() -> list[Json]:
    asked = [(made["metadata"]["name"], of, int(has)) for made, _, held in NODES for of, (_, has) in held.items()]
    asked = [each for each in asked if each[0] != "neuron"] + [("neuron", of, amount) for of, amount in _CORES.items()]
    return [
        placed(pod(f"{on}-{number}", 0, limits={of: str(amount)}), on)
        for number, (on, of, amount) in enumerate(asked)
        if amount
    ]


OBJECTS: list[Json] = [*[made for made, _, _ in NODES], *_pods(), node("cpu", 0)]
WANTED = {
    made["metadata"]["name"]: {of: amounts for of, amounts in held.items() if amounts[0]} for made, _, held in NODES
}
"""Total and allocated by node and resource."""
ONES = {made["metadata"]["name"]: (of, kind) for made, kind, held in NODES for of in (GPU, AMD) if kind and of in held}
"""By node, the resource that means something else on others, and what one of it is there."""
