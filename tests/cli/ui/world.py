"""A cluster that has one of everything that the page shows, as a snapshot: for tests and for the pictures in the documentation."""

import time
from pathlib import Path
from typing import Any

import orjson

from tests import deciding
from tests.cli.objects import TAKEN, placed, unschedulable, with_metrics, write
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import made, pod
from webhook.cli.cluster.load import read_snapshot
from webhook.cli.ui.picture import Picture
from webhook.whatif import offline
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.offline import load_policy

Json = dict[str, Any]
H100, A100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
MESSAGE = "0/13 nodes are available: 13 Insufficient nvidia.com/gpu."


def pool(name: str, count: int, model: str, gpus: int, **more: Any) -> list[Json]:
    return [
        node(f"{name}-{at}", gpus, model, labels={"node-pool": name}, taints=[GPU_TAINT], **more)
        for at in range(1, count + 1)
    ]


def held(name: str, on: str | None, gpus: int, of: str = "training", namespace: str = "research", **more: Any) -> Json:
    """A pod of a Job or, for inference, of a ReplicaSet."""
    message = more.pop("message", MESSAGE)
    resource, kind = more.pop("resource", "nvidia.com/gpu"), "ReplicaSet" if of == "inference" else "Job"
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    asked = {"cpu": str(4 * gpus), "memory": f"{16 * gpus}Gi", resource: str(gpus)}
    container = {"resources": {"limits": asked, "requests": asked}}
    found = pod(name, 0, labels={"workload-type": of}, container=container, tolerations=tolerations, **more)
    workload = name.rpartition("-")[0] or name
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": workload, "uid": f"of-{workload}", "controller": True}
    minutes = sum(map(ord, name)) % 50
    created = f"2026-11-18T10:{minutes:02}:00Z"
    found["metadata"] |= {"namespace": namespace, "ownerReferences": [owner], "creationTimestamp": created}
    return placed(found, on, **({} if on else unschedulable(message)))


def decided(name: str, objects: list[Json], on: str | None) -> Json:
    """A pod with the decision that the webhook takes on it in this cluster."""
    found = pod(name, 2, labels={"workload-type": "training"}, priorityClassName=None)
    found["spec"].pop("priorityClassName")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "finetune", "uid": "of-finetune", "controller": True}
    found["metadata"] |= {"namespace": "research", "ownerReferences": [owner]}
    state = offline.ClusterState(max_age=float("inf"))
    for kind, name_of in (
        ("nodes", "Node"),
        ("pods", "Pod"),
        ("namespaces", "Namespace"),
        ("priorityclasses", "PriorityClass"),
    ):
        state.replace(kind, [each for each in objects if each["kind"] == name_of], TAKEN)  # type: ignore[arg-type]
    (document,) = offline.documents(orjson.dumps(found), name)
    assert isinstance(document, offline.Document)
    stored = deciding.run(document, deciding.decide_mutate, load_policy(), state, TAKEN).pod
    stored["metadata"] |= {"creationTimestamp": f"2026-11-18T11:06:3{name[-1]}Z"}
    return placed(stored, on)


def world() -> list[Json]:
    objects = [
        *pool("train", 5, H100, 8),
        *pool("batch", 4, A100, 8),
        *pool("serve", 3, L4, 4),
        node("sliced-1", 2, A100, labels={"node-pool": "sliced"}, taints=[GPU_TAINT], mig={"1g.10gb": 14}),
        made("Namespace", "research", labels={"gpu-admission.io/profile": "default"}),
        made("Namespace", "search", labels={"gpu-admission.io/profile": "default"}),
        made("Namespace", "team-b"),
        {**made("PriorityClass", "gpu-training"), "value": 1000},
        *[held(f"llm-{at}", f"train-{at}", 8) for at in (1, 2)],
        *(held("vision-1", "train-3", 4), held("vision-2", "train-3", 2)),
        *[held(f"sweep-{at}", f"batch-{1 + at // 8}", 1) for at in range(13)],
        *[held(f"chat-{at}", f"serve-{1 + at % 3}", 1, "inference", "search") for at in range(5)],
        *[held(f"embed-{at}", "serve-1", 1, "service", "search") for at in range(2)],
        held("notebook-anna", "batch-3", 2, "development", "team-b"),
        *[
            held(f"small-{at}", "sliced-1", 1, "inference", "search", resource="nvidia.com/mig-1g.10gb")
            for at in range(5)
        ],
        *[held(f"pretrain-{at}", None, 8, nodeSelector={"nvidia.com/gpu.product": H100}) for at in range(4)],
        held("rank-1", None, 1, "inference", "search", nodeSelector={"gpu-type": "l40"}),
        held("huge-1", None, 16, "training", "team-b"),
        held("tuning-1", None, 4, "training", "team-b", nodeSelector={"node-pool": "sliced"}),
    ]
    nodes = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Node"}
    nodes["train-5"]["spec"]["unschedulable"] = True
    nodes["batch-4"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    nodes["batch-4"]["spec"]["taints"] += [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    nodes["train-4"]["status"]["allocatable"] = {**nodes["train-4"]["status"]["allocatable"], "nvidia.com/gpu": "7"}
    objects.append(decided("finetune-1", objects, "batch-2"))
    objects.append(decided("finetune-2", objects, None))
    refusal = (
        "its pods are refused: spec.containers[main].env[NVIDIA_VISIBLE_DEVICES]: saw all, wanted nothing. [deviceEnv]"
    )
    event = made("Event", "e-1", reason="PodRefused", message=refusal, lastTimestamp="2026-11-18T10:40:00Z")
    event["involvedObject"] = {"kind": "Job", "name": "thief", "namespace": "team-b"}
    event["metadata"]["namespace"] = "team-b"
    return [*objects, event]


def snapshot(folder: Path, *more: Json) -> Path:
    """The file, with GPU metrics of three nodes."""
    numbers = {"train-1": (97, 71), "train-2": (2, 38), "train-3": (64, 92)}
    samples = []
    for name, (percent, degrees) in numbers.items():
        for gpu in range(8):
            samples += [
                [name, f"gpu{gpu}", "utilisation", percent, ""],
                [name, f"gpu{gpu}", "temperature", degrees - gpu, ""],
            ]
    samples.append(["train-1", "gpu7", "xid", 1, ""])
    return with_metrics(write(folder, *world(), *more), samples)


class Cluster:
    """A cluster that the page follows: these objects, or the `error` that reading it gives."""

    def __init__(self, folder: Path, *objects: Json) -> None:
        self.folder, self.objects, self.taken = folder, [*objects], time.time()
        self.error: Exception | None = None

    def snapshot(self) -> Snapshot:
        found = read_snapshot(write(self.folder, *self.objects))
        found.taken = self.taken
        return found

    async def read(self) -> Snapshot:
        if self.error:
            raise self.error
        return self.snapshot()

    def picture(self, snapshot: Snapshot) -> Picture:
        return Picture(snapshot, load_policy())
