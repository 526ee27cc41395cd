"""Traces in the form of the Alibaba GPU trace 2023 ("openb"): nodes and pods, and the published way to replay them.

Columns read. Nodes: sn, cpu_milli, memory_mib, gpu, model. Pods: cpu_milli, memory_mib, num_gpu, gpu_milli (per device;
below 1000 only with one GPU), gpu_spec (models joined by `|`, may be absent). Others are ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MILLI = 1000
"""One whole GPU."""


class TraceError(Exception):
    """A trace that cannot be read; the message says which line, what was seen and what was wanted."""


class Node(NamedTuple):
    name: str
    cpu: int
    memory: int
    gpus: int
    model: str


class Shape(NamedTuple):
    """What a pod asks for: thousandths of a core, MiB, devices, thousandths of each device, allowed models."""

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()
    """Sorted; empty: any."""

    @property
    def amount(self) -> int:
        """Thousandths of GPUs in all."""
        return self.gpus * self.milli

    @property
    def whole(self) -> bool:
        return self.gpus > 0 and self.milli == MILLI


class Trace(NamedTuple):
    nodes: tuple[Node, ...]
    pods: tuple[Shape, ...]

    @property
    def total(self) -> int:
        """Thousandths of GPUs that the nodes have."""
        return sum(node.gpus for node in self.nodes) * MILLI

    def whole_gpu(self) -> Trace:
        """Without the pods that share a GPU: what a plain device plugin can run. CPU-only pods stay."""
        return self._replace(pods=tuple(pod for pod in self.pods if pod.gpus == 0 or pod.whole))


def load(nodes: Path, pods: Path, *, whole: bool = False) -> Trace:
    """Both files; `whole`: as `whole_gpu`. Raises TraceError where nothing would ever fill the nodes, too."""
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


def arrivals(trace: Trace, rng: np.random.Generator, goal: float) -> tuple[list[Shape], NDArray[np.intp]]:
    """Distinct shapes, and the order in which they arrive as indices into them.

    The list shuffled, then pods drawn from it with replacement until the GPUs asked for reach `goal` × all GPUs
    (FGD, USENIX ATC'23, section 6.1). A trace that asks for more than that is not cut.
    """
    shapes = sorted(set(trace.pods))
    number = {shape: index for index, shape in enumerate(shapes)}
    amounts = np.array([shape.amount for shape in shapes], np.int64)
    listed = np.array([number[pod] for pod in trace.pods], np.intp)
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
    """`count` pods drawn from the list with replacement, for a run in which pods leave."""
    shapes = sorted(set(trace.pods))
    number = {shape: index for index, shape in enumerate(shapes)}
    listed = np.array([number[pod] for pod in trace.pods], np.intp)
    return shapes, listed[rng.integers(0, len(listed), count)]


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
