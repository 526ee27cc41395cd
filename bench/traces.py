"""Reads traces in the format of the Alibaba GPU trace 2023 ("openb"), or a cluster in place of one, and draws arrivals from them.

Columns of nodes: sn, cpu_milli, memory_mib, gpu, model. Columns of pods: cpu_milli, memory_mib, num_gpu, gpu_milli (of each
device; below 1000 only with one GPU), gpu_spec (models joined by `|`; the column may be absent). Other columns are ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.feeds.file import load_cluster
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.pod import FINISHED
from webhook.kube.pod_requests import PodRequests, counted_requests
from webhook.kube.quantity import milli, whole
from webhook.nodes.popular import pinned_models
from webhook.policy.model import Policy, PolicyFile

MILLI = 1000
"""Thousandths of a GPU in a whole GPU."""


class TraceError(Exception):
    """A trace cannot be read. The message says the line, what was seen and what was wanted."""


class Node(NamedTuple):
    """A node: name, thousandths of a core, MiB of memory, number of GPUs, GPU model."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


class Shape(NamedTuple):
    """What a pod requests: thousandths of a core, MiB of memory, devices, thousandths of each device, GPU models."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()
    """The models that the pod may use, sorted; empty: any model."""

    @property
    def amount(self) -> int:
        """Thousandths of a GPU, over all devices."""
        return self.gpus * self.milli

    @property
    def whole(self) -> bool:
        return self.gpus > 0 and self.milli == MILLI


class Trace(NamedTuple):
    nodes: tuple[Node, ...]
    pods: tuple[Shape, ...]

    @property
    def total(self) -> int:
        """Thousandths of a GPU, over all nodes."""
        return sum(node.gpus for node in self.nodes) * MILLI

    def whole_gpu(self) -> Trace:
        """The trace without pods that request a part of a GPU, which a plain device plugin cannot run."""
        return self._replace(pods=tuple(pod for pod in self.pods if pod.gpus == 0 or pod.whole))


def load(nodes: Path, pods: Path, *, whole: bool = False) -> Trace:
    """Read a trace from its two files. `whole`: leave out pods that request a part of a GPU. Raises TraceError, also if no node
    has or no pod requests a GPU."""
    trace = Trace(_nodes(nodes), _pods(pods))
    if not trace.total:
        raise TraceError(f"{nodes}: saw no node with GPUs, wanted at least one (column gpu)")
    if not any(pod.gpus for pod in trace.pods):
        raise TraceError(f"{pods}: saw no pod that asks for GPUs, wanted at least one (column num_gpu)")
    if not whole:
        return trace
    if not any(pod.whole for pod in trace.pods):
        raise TraceError(f"{pods}: saw only pods that share a GPU, wanted one with whole GPUs: leave --whole-gpu out")
    return trace.whole_gpu()


def of_cluster(path: Path) -> Trace:
    """The nodes of a snapshot with whole GPUs of a device plugin, the pods that ask for such, and those without GPUs that run
    there, but for DaemonSets and what has ended. Raises BadInput for a file that is none, TraceError if nothing is left."""
    gpus, objects = Policy.of(PolicyFile()).gpus, load_cluster(path)
    nodes: dict[str, Node] = {}
    for node in objects["nodes"]:
        has, labels = node["status"].get("allocatable") or {}, node["metadata"].get("labels") or {}
        if count := sum([whole(has[name]) for name in has if gpus.kind(name) == "whole"]):
            model = next((labels[key] for key in MODEL_LABELS if key in labels), "")
            name = node["metadata"]["name"]
            nodes[name] = Node(name, milli(has.get("cpu", 0)), whole(has.get("memory", 0)) >> 20, count, model)
    pods = []
    for pod in objects["pods"]:
        owners = [owner.get("kind") for owner in pod["metadata"].get("ownerReferences") or ()]
        if "DaemonSet" in owners or (pod.get("status") or {}).get("phase") in FINISHED:
            continue
        asked: PodRequests = counted_requests(pod)
        named = gpus.among([name for name, _ in asked.requests])
        count = sum([asked.amount(name) for name in named])
        if all([gpus.kind(name) == "whole" for name in named]) and (count or pod["spec"].get("nodeName") in nodes):
            models = pinned_models(pod["spec"]) or () if count else ()
            pods.append(Shape(asked.amount("cpu"), asked.amount("memory") >> 20, count, MILLI if count else 0, models))
    if not nodes or not any(pod.gpus for pod in pods):
        raise TraceError(f"{path}: saw no node with whole GPUs, or no pod that asks for one; wanted both")
    return Trace(tuple(nodes.values()), tuple(pods))


def arrivals(trace: Trace, rng: np.random.Generator, goal: float) -> tuple[list[Shape], NDArray[np.intp]]:
    """The distinct shapes, and the order in which pods arrive, as indices of their shapes.

    All pods arrive in random order, then more that are drawn from them with replacement, until all together request `goal` times
    the GPUs of the cluster (FGD, USENIX ATC'23, section 6.1). A trace that requests more than that is not cut.
    """
    shapes, listed = _shapes(trace)
    amounts = np.array([shape.amount for shape in shapes], np.int64)
    rng.shuffle(listed)
    parts, have = [listed], int(amounts[listed].sum())
    while have < goal * trace.total:
        extra = listed[rng.integers(0, len(listed), len(listed))]
        parts.append(extra)
        have += int(amounts[extra].sum())
    order = np.concatenate(parts)
    enough = int(np.searchsorted(np.cumsum(amounts[order]), goal * trace.total)) + 1
    return shapes, order[: max(enough, len(listed))]


def draws(trace: Trace, rng: np.random.Generator, count: int) -> tuple[list[Shape], NDArray[np.intp]]:
    """As `arrivals`, with `count` pods that are drawn with replacement, for a run in which pods end."""
    shapes, listed = _shapes(trace)
    return shapes, listed[rng.integers(0, len(listed), count)]


def _shapes(trace: Trace) -> tuple[list[Shape], NDArray[np.intp]]:
    """The distinct shapes, and the pods of the trace as indices of their shapes."""
    shapes = sorted(set(trace.pods))
    index_of = {shape: index for index, shape in enumerate(shapes)}
    return shapes, np.array([index_of[pod] for pod in trace.pods], np.intp)


def _nodes(path: Path) -> tuple[Node, ...]:
    rows = _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    nodes = []
    for line, row in rows:
        cpu, memory, gpus = (_number(path, line, row, name) for name in ("cpu_milli", "memory_mib", "gpu"))
        nodes.append(Node(row["sn"], cpu, memory, gpus, row["model"]))
    return tuple(nodes)


def _pods(path: Path) -> tuple[Shape, ...]:
    pods = []
    for line, row in _rows(path, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        cpu, memory, gpus = (_number(path, line, row, name) for name in ("cpu_milli", "memory_mib", "num_gpu"))
        milli = _number(path, line, row, "gpu_milli") if gpus else 0
        if gpus and (not 0 < milli <= MILLI or (gpus > 1 and milli != MILLI)):
            raise TraceError(
                f"{path}:{line}: saw gpu_milli {milli} with num_gpu {gpus}, wanted 1..1000, 1000 above one"
            )
        models = tuple(sorted(set(filter(None, (row.get("gpu_spec") or "").split("|"))))) if gpus else ()
        pods.append(Shape(cpu, memory, gpus, milli, models))
    return tuple(pods)


def _rows(path: Path, wanted: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in wanted if name not in (reader.fieldnames or ())]
        if missing:
            raise TraceError(f"{path}:1: saw no column {', '.join(missing)}, wanted {', '.join(wanted)}")
        return [(reader.line_num, row) for row in reader]


def _number(path: Path, line: int, row: dict[str, str], name: str) -> int:
    try:
        value = int(row[name] or 0)
    except (TypeError, ValueError):
        value = -1
    if value < 0:
        raise TraceError(f"{path}:{line}: saw {name} {row[name]!r}, wanted a whole number that is not negative")
    return value
