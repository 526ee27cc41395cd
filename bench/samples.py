"""A cluster of equal GPU nodes as API objects, for the benchmarks of the server."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from bench.recorded import Silent
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers
from webhook.server.process import Recorder
from webhook.state.state import ClusterState
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics
from webhook.whatif.offline import load_state


def state_of(objects: dict[str, Any]) -> ClusterState:
    """The state that a server has of these objects. `objects`: a List."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_bytes(orjson.dumps(objects))
        return load_state(file)


def handlers_of(state: ClusterState, log: BinaryIO) -> Handlers:
    """Both hooks as the server has them, with the shipped policy, and a clock that always says 0."""
    return Handlers(Silent(), state, Placer(state), Recorder(Metrics(), logs.configure(log)), lambda: 0.0)


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
    """Empty nodes, and the PriorityClasses that the shipped policy names. With 128 GPUs each, 1,000 nodes never fill up."""
    classes = [("gpu-inference", 100000), ("gpu-training", 10000), ("gpu-development", 1000)]
    priorities = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in classes
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [node(i, gpus) for i in range(nodes)] + priorities}


def full(nodes: int, gpus: int) -> dict[str, Any]:
    """The same cluster with one pod on each node that has all of its GPUs."""
    objects = cluster(nodes, gpus)
    objects["items"] += [running(number, gpus) for number in range(nodes)]
    return objects


def running(number: int, gpus: int) -> dict[str, Any]:
    """A pod on the node of the same number."""
    amount = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "i", "resources": {"limits": amount, "requests": amount}}
    metadata = {
        "name": f"running-{number:05d}",
        "namespace": "training",
        "uid": f"{number:08x}-0000-0000-0000-000000000000",
    }
    spec = {"nodeName": f"gpu-{number:05d}", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
