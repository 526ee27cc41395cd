"""Small clusters for the commands, as files and as snapshots."""

from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
from click.testing import Result
from typer.testing import CliRunner

from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.cli.cluster.load import read_snapshot
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.main import app
from webhook.kube.kinds import KINDS

Json = dict[str, Any]
TAKEN = 1_795_000_000.0


def placed(made: Json, on: str | None, **status: Any) -> Json:
    """A pod of the namespace `team`: bound and running on a node, or waiting."""
    metadata = {"namespace": "team", "uid": f"uid-{made['metadata']['name']}", **made["metadata"]}
    phase = {"phase": "Running" if on else "Pending"}
    return {
        **made,
        "metadata": metadata,
        "spec": made["spec"] | ({"nodeName": on} if on else {}),
        "status": phase | status,
    }


def of_job(made: Json, job: str = "train", **metadata: Any) -> Json:
    """The pod, made by a Job."""
    owner = {"kind": "Job", "name": job, "uid": job, "controller": True}
    return made | {"metadata": made["metadata"] | {"ownerReferences": [owner], **metadata}}


def unschedulable(message: str) -> Json:
    """The status of a pod that the scheduler found no node for."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"conditions": [condition]}


CLUSTER: list[Json] = [
    node("gpu-a", labels={"node-pool": "training"}),
    node("gpu-b", 4, "NVIDIA-L4", labels={"node-pool": "inference"}, taints=["nvidia.com/gpu=present:NoSchedule"]),
    node("gpu-c", 8, ready=False, labels={"node-pool": "training"}),
    node("cpu-a", 0, labels={"node-pool": "general"}),
    placed(pod("trainer", 6), "gpu-a"),
    placed(pod("waits", 4), None, **unschedulable("0/4 nodes are available: 1 Insufficient nvidia.com/gpu, …")),
]


def write(folder: Path, *objects: Json, taken: float = TAKEN, kinds: Iterable[str] = KINDS) -> Path:
    """A snapshot of these objects. `kinds`: those that were read."""
    path = folder / "cluster.json"
    mark = {"taken": taken, "missing": {}, "kinds": list(kinds)}
    path.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "snapshot": mark, "items": objects}))
    return path


def snapshot(folder: Path, *objects: Json) -> Snapshot:
    return read_snapshot(write(folder, *objects))


def call(*arguments: Any) -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert "Traceback" not in result.output
    return result


class Page(HTMLParser):
    """The tags of a page, and its attributes that load or run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [name for name, _ in attrs if name in ("src", "href") or name.startswith("on")]
