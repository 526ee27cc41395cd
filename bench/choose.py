"""How long one choice of a node takes: `python -m bench.choose`.

Each number of nodes is measured in a process of its own. The state is filled with a cluster of about eight pods a node, in
pages as the API server lists them. Then pods of many shapes are placed one after another; each is reserved, seen and bound.
Between them other pods end, nodes report their status, and some nodes are cordoned. Two times are taken: CPU time of the thread,
and wall-clock time, which includes whatever else runs on the machine. `quiet` has only the choices for which no other process
had the processor since the choice before: otherwise caches are cold, and a choice takes several times as long.
"""

import argparse
import gc
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import compress, repeat
from math import inf
from pathlib import Path

import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.fleet import Object, node, pod, running, strategy_of
from bench.output import save, stdout
from bench.plot import lines
from webhook.framework.cluster_view import Placement
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import GpuName, Gpus
from webhook.kube.pod import DECISION
from webhook.placement.placer import Placer
from webhook.placement.settings import PlacementSettings
from webhook.state.objects import REQUIRED, ListKind
from webhook.state.state import ClusterState

SIZES = (1_213, 5_000, 20_000, 65_000)
AIMS = {1_213: 0.5, 65_000: 2.0}
"""The 99th percentile that is aimed at, in milliseconds, by the number of nodes."""
GPUS = Gpus([GpuName("nvidia.com/gpu", "whole")])
_SETTINGS = PlacementSettings()
_PAGE = 500
"""Objects in a page of a list."""
_PODS_PER_NODE = 7.7
_WARM_UP = 1_000
"""Choices before those that are measured."""
_KIB = 1024
progress = Console(stderr=True)


class Stopwatch:
    """Measures durations in microseconds: CPU time of this thread, and wall-clock time."""

    def __init__(self) -> None:
        self.cpu: list[float] = []
        self.wall: list[float] = []
        self.quiet: list[bool] = []
        """For each duration, whether this thread kept the processor since the end of the duration before it."""
        self._switches = -1

    def __enter__(self) -> None:
        self._wall, self._cpu = time.perf_counter_ns(), time.thread_time_ns()

    def __exit__(self, *_: object) -> None:
        self.cpu.append((time.thread_time_ns() - self._cpu) / 1000)
        self.wall.append((time.perf_counter_ns() - self._wall) / 1000)
        usage = resource.getrusage(resource.RUSAGE_THREAD)
        before, self._switches = self._switches, usage.ru_nivcsw + usage.ru_nvcsw
        self.quiet.append(before == self._switches)

    def summary(self, which: Sequence[bool] | None = None) -> dict[str, float]:
        """Median and 99th percentile of all durations, or of those for which `which` is true, if there are any."""
        chosen = which if which and any(which) else repeat(True)
        cpu, wall = (sorted(compress(times, chosen)) for times in (self.cpu, self.wall))
        at = {"p50": len(cpu) // 2, "p99": len(cpu) * 99 // 100}
        figures = {f"cpu_{name}_us": round(cpu[i], 1) for name, i in at.items()}
        return figures | {f"wall_{name}_us": round(wall[i], 1) for name, i in at.items()} | {"n": len(cpu)}


def fill(state: ClusterState, count: int) -> dict[str, float]:
    """Fill the state with `count` nodes and their pods, page by page. Returns CPU seconds and bytes of an object, by kind."""
    figures: dict[str, float] = {}
    pods = int(count * _PODS_PER_NODE)
    kinds: tuple[tuple[ListKind, int, Iterator[Object]], ...] = (
        ("nodes", count, (node(i) for i in range(count))),
        ("pods", pods, (running(i, count) for i in range(pods))),
    )
    for kind, total, objects in kinds:
        gc.collect()
        before, spent = _resident(), 0.0
        for _ in track(range(-(-total // _PAGE)), f"{count:,} nodes: {kind}", console=progress, transient=True):
            page = orjson.loads(orjson.dumps([obj for obj, _ in zip(objects, range(_PAGE), strict=False)]))
            started = time.thread_time()
            for obj in page:
                state.seen(kind, obj, 0.0)
            spent += time.thread_time() - started
        del page
        state.freshness.complete(kind, 0.0)
        figures[f"{kind}_seconds"] = round(spent, 2)
        gc.collect()
        figures[f"{kind}_bytes_each"] = round((_resident() - before) / total)
    return figures


def measure(count: int, choices: int) -> Object:
    """All figures for one number of nodes, as they stand in choose.json."""
    state, rng = ClusterState(max_age=inf), random.Random(1)
    placer = Placer(state)
    empty = _resident()
    figures = fill(state, count)
    for kind in REQUIRED:
        state.replace(kind, [], 0.0) if kind not in state.freshness.listed else state.freshness.heard(kind, 0.0)
    gc.collect()
    gc.freeze()
    figures["memory_mib"] = round((_resident() - empty) / _KIB / _KIB, 1)
    watches = {name: Stopwatch() for name in ("choose", "reserve", "pod event", "node event")}
    alive: list[
        bytes
    ] = []  # JSON, not objects: a server keeps no pods, and garbage collection would look through these
    for step in track(range(_WARM_UP + choices), f"{count:,} nodes: choices", console=progress, transient=True):
        if step == _WARM_UP:
            watches |= {name: Stopwatch() for name in watches}
        number = 1_000_000 + step
        made = pod(number, 200_000 + step // 20 % 40 + 40 * (step // 800))
        _admit(state, placer, made, step, watches, alive)
        _others(state, count, rng, watches, alive)
    return {
        "nodes": count,
        "pods": int(count * _PODS_PER_NODE),
        **figures,
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB, 1),
        "refused": sum(1 for made in alive if b'"nodeName"' not in made),
        **{name.replace(" ", "_"): watch.summary() for name, watch in watches.items()},
        "quiet": watches["choose"].summary(watches["choose"].quiet),
    }


def _admit(
    state: ClusterState,
    placer: Placer,
    made: Object,
    step: int,
    watches: dict[str, Stopwatch],
    alive: list[bytes],
) -> None:
    """Place one pod, reserve its node, and show it to the state as bound to the first ranked node."""
    owner = int(made["metadata"]["name"].split("-")[1])
    now = step / 100
    with watches["choose"]:
        placement: Placement = placer.place(AskedPod(made, GPUS), state.view(now), _SETTINGS, strategy_of(owner))
    with watches["reserve"]:
        state.reserve(AskedPod(made, GPUS), placement, now)
    if placement.nodes:
        _write(made, placement)
        made["spec"]["nodeName"] = placement.nodes[0].node
        made["status"] = {"phase": "Running"}
        with watches["pod event"]:
            state.pod_seen(made, now)
    alive.append(orjson.dumps(made))


def _write(made: Object, placement: Placement) -> None:
    """Write into the pod what admission writes, so that the state finds the reservation of the pod when it sees it."""
    nodes = [ranked.node for ranked in placement.nodes]
    made["metadata"]["annotations"] = {DECISION: json.dumps({"nodes": nodes})}
    affinity = made["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
        {
            "weight": weight,
            "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]},
        }
        for name, weight in zip(nodes, placement.weights, strict=False)
    ]


def _others(
    state: ClusterState, count: int, rng: random.Random, watches: dict[str, Stopwatch], alive: list[bytes]
) -> None:
    """The other events between two choices: a pod ends, a node reports."""
    if len(alive) > max(100, count // 10):
        ended = orjson.loads(alive.pop(rng.randrange(len(alive))))
        with watches["pod event"]:
            state.pod_gone(ended)
    if rng.random() < 0.5:
        number = rng.randrange(count)
        made = node(number, beat=rng.randrange(10**6), cordoned=rng.random() < 0.05)
        with watches["node event"]:
            state.node_seen(made)


def _resident() -> int:
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def table(results: list[Object]) -> Table:
    made = Table(title="CPU time of one choice by the number of nodes; memory and start of the state")
    for head in ("nodes", "p50", "p99", "quiet p99", "aim", "pod event", "node event", "memory", "start"):
        made.add_column(head, justify="right")
    for result in results:
        choose, quiet, aim = result["choose"], result["quiet"], AIMS.get(result["nodes"])
        events = [result[kind]["cpu_p50_us"] for kind in ("pod_event", "node_event")]
        made.add_row(
            f"{result['nodes']:,}",
            *(f"{took:,.0f} µs" for took in (choose["cpu_p50_us"], choose["cpu_p99_us"], quiet["cpu_p99_us"])),
            f"{aim * 1000:,.0f} µs" if aim else "",
            *(f"{took:.0f} µs" for took in events),
            f"{result['memory_mib']:.0f} MiB",
            f"{result['nodes_seconds'] + result['pods_seconds']:.1f} s",
        )
    return made


def chart(results: list[Object]) -> str:
    """An SVG chart of the time of a choice over the number of nodes."""
    series = {
        "p99": [(r["nodes"], r["choose"]["cpu_p99_us"] / 1000) for r in results],
        "p99, quiet": [(r["nodes"], r["quiet"]["cpu_p99_us"] / 1000) for r in results],
        "p50": [(r["nodes"], r["choose"]["cpu_p50_us"] / 1000) for r in results],
        "aim (p99)": [(r["nodes"], AIMS[r["nodes"]]) for r in results if r["nodes"] in AIMS],
    }
    return lines("One choice of a node", "nodes", "milliseconds of CPU", series, log=(True, True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.choose", description=__doc__)
    parser.add_argument("--nodes", default=",".join(map(str, SIZES)), help="numbers of nodes, with commas")
    parser.add_argument("--choices", type=int, default=5_000, help="number of choices for each number of nodes")
    parser.add_argument("--out", type=Path, help="folder for choose.json and choose.svg")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.choices)))
        return
    results = []
    for size in given.nodes.split(","):
        command = [sys.executable, "-m", "bench.choose", "--one", size, "--choices", str(given.choices)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        results.append(json.loads(done.stdout))
    stdout().print(table(results))
    save(given.out, "choose.json", json.dumps(results, indent=1) + "\n")
    save(given.out, "choose.svg", chart(results))


if __name__ == "__main__":
    main()
