"""The keys of `-o json`, and those of the page, are those of docs/documents.md: what is printed is there, and what is there is
printed.

Names of nodes and resources are keys too; here each has a `-` or a `/`.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, call, of_job, placed, write
from tests.cli.test_top_by import metered, replica
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.kube.pod import DECISION

ROOT = Path(__file__).resolve().parents[2]
PAGE, _, EXPORT = (ROOT / "docs" / "documents.md").read_text().partition("\n## ui: Export JSON\n")
SECTIONS = {title: text for title, _, text in [part.partition("\n") for part in PAGE.split("\n## ")[1:]]}
QUOTED = re.compile(r'"(\w+)"')
FILES = {
    "pods.json": [pod("one", 8), pod("bad", 64)],
    "set.json": [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "MPIJob",
            "metadata": {"name": "set"},
            "spec": {"mpiReplicaSpecs": {word: {"template": pod(word, 1)} for word in ("Launcher", "Worker")}},
        }
    ],
    "broken.json": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}],
}
RUNS: dict[str, list[list[Any]]] = {
    "why": [[], ["waits"], ["decided"], ["job/train"]],
    "top": [[], *[[what] for what in ("namespaces", "workloads", "classes", "models")]],
    "try": [["-f", name] for name in ("pods.json", "set.json", "broken.json")],
    "drain": [[], ["gpu-f"], ["gpu-a"], ["gpu-d"]],
    "doctor": [[]],
    "policy diff": [["-n", "team"], ["default", "-f", "pods.json"]],
    "version": [[]],
    "policy test": [[ROOT / "manifests/examples/tests"]],
}


def cluster(folder: Path) -> Path:
    ranked = [[name, 8, 0, 1.0] for name in ("gpu-a", "gpu-b")]
    decided = placed(pod("decided", 1), "gpu-a")
    record = {"class": "training", "policy": "old", "nodes": ranked, "units": {"tolerations": ["added", ["x"]]}}
    decided["metadata"]["annotations"] = {DECISION: json.dumps(record)}
    rejected = placed(pod("rejected", 1), "gpu-a", phase="Failed", reason="UnexpectedAdmissionError")
    shares, withdrawn = node("gpu-d", 2, replicas=4), node("gpu-e", 7)
    withdrawn["status"]["capacity"] = {**withdrawn["status"]["allocatable"], "nvidia.com/gpu": "8"}
    slices = node("gpu-h", 56, labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"})
    moved = [
        *[of_job(placed(pod(name, 1), "gpu-f")) for name in ("moves", "too")],
        of_job(placed(pod("stays", 4), "gpu-e"), "other"),
    ]
    counted = replica("replica-1", team={"window": 2, "1h": 2, "6h": 1, "1d": 1})
    others = [decided, rejected, shares, slices, withdrawn, node("gpu-f"), *moved, counted]
    file = write(folder, *CLUSTER, *others)
    metered(file, {"gpu-a": 3}, {"gpu-a": ["team/decided"]})
    found = json.loads(file.read_text())
    readings = {"memory_used": 10.0, "memory_free": 90.0, "temperature": 60.0, "xid": 0.0}
    found["snapshot"]["gpuMetrics"]["samples"] += [["gpu-a", "0", word, value, ""] for word, value in readings.items()]
    file.write_text(json.dumps(found))
    return file


def keys(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from (key for key in document if key.isalnum())
    for each in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from keys(each)


@pytest.mark.parametrize("command", SECTIONS)
def test_the_keys_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name, objects in FILES.items():
        Path(name).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    file = [] if command == "policy test" else ["--from", cluster(tmp_path)]
    printed: set[str] = set()
    for arguments in RUNS[command]:
        printed.update(keys(json.loads(call(*command.split(), *arguments, *file, "-o", "json").stdout)))
    printed -= {"apiVersion", "kind", "items"}
    text = SECTIONS[command]
    written = {*QUOTED.findall(text), *re.findall(r"`(\w+)`", text)}
    assert (
        printed
        - written
        - ({*QUOTED.findall(SECTIONS["why"]), *re.findall(r"`(\w+)`", SECTIONS["why"])} if command == "try" else set())
        == set()
    )
    assert set(QUOTED.findall(text)) - printed <= {"items"}


def test_the_keys_of_the_page_are_those_of_its_export(tmp_path: Path) -> None:
    call("ui", "--from", cluster(tmp_path), "--html", tmp_path / "page.html")
    (text,) = re.findall(r'id="state">(.*?)</script>', (tmp_path / "page.html").read_text(), re.DOTALL)
    state = {
        key: value for key, value in json.loads(text).items() if key not in ("about", "lists", "leftOut", "answers")
    }
    written = set(QUOTED.findall(EXPORT))
    of_commands = set(QUOTED.findall(SECTIONS["top"] + SECTIONS["why"]))
    assert set(keys(state)) - written - of_commands == set()
    assert written - set(keys(state)) == set()
