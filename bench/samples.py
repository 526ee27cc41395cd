"""A cluster of equal GPU nodes as API objects, for the benchmarks of the server."""

import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from bench.recorded import Silent
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import pod
from webhook.feeds.file import fill
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers
from webhook.server.process import Recorder
from webhook.state.state import ClusterState
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics
from webhook.whatif.offline import new_state


def state_of(objects: dict[str, Any]) -> ClusterState:
    """The state that a server has of these objects. `objects`: a List."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_bytes(orjson.dumps(objects))
        fill(state := new_state(), file, 0.0)
    return state


def handlers_of(state: ClusterState, log: BinaryIO) -> Handlers:
    """Both hooks as the server has them, with the shipped policy, and a clock that always says 0."""
    return Handlers(Silent(), state, Placer(state), Recorder(Metrics(), logs.configure(log)), lambda: 0.0)


def gpu_node(number: int, gpus: int) -> dict[str, Any]:
    """With room for everything else. With 0 GPUs those are devices of DRA."""
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    room = {"cpu": "2048", "memory": "16Ti", "pods": "1000"}
    return node(f"gpu-{number:05d}", gpus, zone=f"zone-{number % 3}", labels=labels, taints=[GPU_TAINT], **room)


def cluster(nodes: int, gpus: int = 128) -> dict[str, Any]:
    """Empty nodes, and the PriorityClasses that the shipped policy names. With 128 GPUs each, 1,000 nodes never fill up."""
    classes = [("gpu-inference", 100000), ("gpu-training", 10000), ("gpu-development", 1000)]
    priorities = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in classes
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [gpu_node(i, gpus) for i in range(nodes)] + priorities}


def full(nodes: int, gpus: int) -> dict[str, Any]:
    """The same cluster with one pod on each node that has all of its GPUs."""
    objects = cluster(nodes, gpus)
    objects["items"] += [running(number, gpus) for number in range(nodes)]
    return objects


def running(number: int, gpus: int) -> dict[str, Any]:
    """A pod on the node of the same number."""
    amount = {"cpu": "64", "memory": "512Gi"}
    found = pod(f"running-{number:05d}", gpus, limits=amount, namespace="training", nodeName=f"gpu-{number:05d}")
    found["metadata"]["uid"] = f"{number:08x}-0000-0000-0000-000000000000"
    return found | {"status": {"phase": "Running"}}
