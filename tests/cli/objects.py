"""Small clusters for the commands, as files and as snapshots."""

from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from tests.controlplane.nodes import node
from tests.controlplane.objects import made, pod
from webhook.cli.cluster.load import read_snapshot
from webhook.cli.main import app
from webhook.kube.kinds import KINDS
from webhook.kube.pod import PROFILE_LABEL
from webhook.whatif.cluster.snapshot import Snapshot

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


def namespace(name: str = "team", **labels: str) -> Json:
    return made("Namespace", name, labels=labels)


OPTED_IN = namespace(**{PROFILE_LABEL: "default"})


def of_kind(kind: str, obj: Json) -> Json:
    """An object of DRA, as files have it."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": {}, "status": {}, **obj}


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


def with_metrics(file: Path, samples: Iterable[list[Any]], source: str = "prometheus") -> Path:
    """The snapshot, with GPU metrics. A sample: node, GPU, reading, number, MIG instance, and the pod if labels name one."""
    found = orjson.loads(file.read_bytes())
    found["snapshot"]["gpuMetrics"] = {"source": source, "samples": list(samples)}
    file.write_bytes(orjson.dumps(found))
    return file


def kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "config"
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": of}}
        for name, of in (("one", "team"), ("two", "other"))
    ]
    users, clusters = [{"name": "u", "user": {"token": "abc"}}], [{"name": "c", "cluster": {"server": url}}]
    found = {"clusters": clusters, "users": users, "contexts": contexts, "current-context": "one"}
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **found}))
    return path


def call(*arguments: Any, stdin: bytes | str = "") -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)
    assert "Traceback" not in result.output
    return result


def document(*arguments: Any) -> Any:
    """What a command prints with `-o json`; of a list its items."""
    found = orjson.loads(call(*arguments, "-o", "json").stdout)
    assert found["apiVersion"] == "gpu-admission.io/v1"
    return found["items"] if found["kind"].endswith("List") else found


def terminal(patch: pytest.MonkeyPatch, columns: int) -> None:
    """What is printed goes to a terminal of so many columns, without colours."""
    for key, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": str(columns), "TERM": "xterm"}.items():
        patch.setenv(key, value)


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
