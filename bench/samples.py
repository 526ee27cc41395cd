"""A cluster for benchmarks of the server."""

from __future__ import annotations

from typing import Any


def node(number: int, gpus: int) -> dict[str, Any]:
    name = f"gpu-{number:05d}"
    amount = {"cpu": "2048", "memory": "16Ti", "pods": "1000", "nvidia.com/gpu": str(gpus)}
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"allocatable": amount, "capacity": amount, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def cluster(nodes: int, gpus: int = 128) -> dict[str, Any]:
    """With 128 GPUs on each a thousand nodes do not fill up."""
    classes = [("gpu-inference", 100000), ("gpu-training", 10000), ("gpu-development", 1000)]
    priorities = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in classes
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [node(i, gpus) for i in range(nodes)] + priorities}


def full(nodes: int, gpus: int) -> dict[str, Any]:
    """All GPUs of each node are one pod's."""
    found = cluster(nodes, gpus)
    found["items"] += [running(number, gpus) for number in range(nodes)]
    return found


def running(number: int, gpus: int) -> dict[str, Any]:
    amount = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "i", "resources": {"limits": amount, "requests": amount}}
    metadata = {
        "name": f"running-{number:05d}",
        "namespace": "training",
        "uid": f"{number:08x}-0000-0000-0000-000000000000",
    }
    spec = {"nodeName": f"gpu-{number:05d}", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
