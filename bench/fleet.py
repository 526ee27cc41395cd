"""GPU nodes and pods as API objects, for the benchmarks `choose` and `burst`."""

from typing import Any

Object = dict[str, Any]
MODELS = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S", "Tesla-T4")


def node(number: int, *, beat: int = 0, cordoned: bool = False) -> Object:
    """A GPU node with about as many labels and conditions as GPU Feature Discovery and Node Feature Discovery set.

    `beat`: differs between two status reports of the node.
    """
    name, model, gpus = f"gpu-{number:05d}", MODELS[number % len(MODELS)], (8, 8, 4, 2)[number % 4]
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.F{i}": "true" for i in range(40)} | {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "topology.kubernetes.io/rack": f"rack-{number // 16}",
        "nvidia.com/gpu.product": model,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gfd.timestamp": str(1_700_000_000 + number),
    }
    amount = {"cpu": str(12 * gpus), "memory": f"{128 * gpus}Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    conditions = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
    spec: Object = {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]}
    if cordoned:
        spec["unschedulable"] = True
    problems = [{"type": kind, "status": "False", "lastHeartbeatTime": str(beat)} for kind in conditions]
    return {
        "metadata": {"name": name, "labels": labels, "resourceVersion": str(beat)},
        "spec": spec,
        "status": {
            "allocatable": {**amount, "nvidia.com/gpu": str(gpus)},
            "conditions": [*problems, {"type": "Ready", "status": "True", "lastHeartbeatTime": str(beat)}],
        },
    }


_SIZES = (1, 1, 2, 4, 8)
"""Numbers of GPUs of a pod; owners take them in turns."""


def pod(number: int, owner: int, *, on: str | None = None, gpus: int | None = None) -> Object:
    """A pod of this owner. Size and node selector depend on the owner. `on`: the node of a running pod; None: it waits."""
    asked = _SIZES[owner % len(_SIZES)] if gpus is None else gpus
    amount = {"cpu": str(8 * asked), "memory": f"{64 * asked}Gi", "nvidia.com/gpu": str(asked)}
    if not asked:
        amount = {"cpu": "500m", "memory": "1Gi"}
    spec: Object = {
        "containers": [{"name": "main", "image": "i", "resources": {"limits": amount, "requests": amount}}],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    if owner % 4 == 1:
        spec["nodeSelector"] = {"topology.kubernetes.io/zone": f"zone-{owner % 3}"}
    if owner % 4 == 2:
        expression = {"key": "nvidia.com/gpu.product", "operator": "In", "values": list(MODELS[:2])}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    if on is not None:
        spec["nodeName"] = on
    uid = f"{owner:08x}-0000-0000-0000-{number:012x}"
    kind = "ReplicaSet" if owner % 2 else "Job"
    controller = {"kind": kind, "name": f"o-{owner}", "uid": f"{owner:08x}-1111-0000-0000-{0:012x}", "controller": True}
    return {
        "metadata": {
            "name": f"o-{owner}-{number}",
            "generateName": f"o-{owner}-",
            "namespace": f"team-{owner % 50}",
            "uid": uid,
            "labels": {"app": f"app-{owner}"},
            "ownerReferences": [controller],
        },
        "spec": spec,
        "status": {"phase": "Running" if on else "Pending"},
    }


def strategy_of(owner: int) -> str:
    return "spread" if owner % 2 else "pack"


def running(number: int, nodes: int) -> Object:
    """Pod `number` of a cluster of `nodes` nodes. On two of three nodes one pod has half of the GPUs; other pods have none."""
    at, rank = number % nodes, number // nodes
    if rank == 0 and at // 12 % 3:
        return pod(number, number // 20, on=f"gpu-{at:05d}", gpus=(4, 4, 2, 1)[at % 4])
    return pod(number, 100_000 + number // 20, on=f"gpu-{at:05d}", gpus=0)
