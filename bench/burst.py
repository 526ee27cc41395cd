"""How long one choice of a node takes while replicas of one owner come in a burst: `python -m bench.burst`.

A Deployment has 1,000 and then 4,000 replicas with one GPU each, on nodes of 8 GPUs. Each replica is placed, and its node is
reserved, but no watch event of a replica comes. The medians of each tenth of the burst show whether a choice takes longer with
more reservations of the same owner.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from functools import partial
from math import inf
from statistics import median

from rich.table import Table

from bench.fleet import Object, node, pod
from bench.output import stdout, tenths
from webhook.cluster.pods import reservation_request
from webhook.cluster.state import REQUIRED, ClusterState
from webhook.kube.gpus import GpuName, Gpus
from webhook.placement.placer import Placer
from webhook.placement.settings import PlacementSettings

GPUS = Gpus([GpuName("nvidia.com/gpu", "whole")])


def cluster(nodes: int) -> ClusterState:
    """Equal empty nodes of 8 GPUs. Reservations do not expire."""
    state = ClusterState(max_age=inf)
    state.ledger.ttl = state.ledger.unseen_ttl = inf
    made = [
        node(number) | {"metadata": {"name": f"gpu-{number:05d}"}} | {"status": node(0)["status"]}
        for number in range(nodes)
    ]
    for kind in REQUIRED:
        state.replace(kind, made if kind == "nodes" else (), 0.0)
    return state


def burst(state: ClusterState, replicas: int, make: Callable[[int], Object], strategy: str) -> list[float]:
    """Median microseconds of a choice, for each tenth of the burst."""
    settings, taken, placer = PlacementSettings(), list[float](), Placer(state)
    gc.collect()
    for number in range(replicas):
        made = make(number)
        started = time.perf_counter()
        placement = placer.place(made, state.view(0.0), settings, strategy, GPUS)
        taken.append((time.perf_counter() - started) * 1e6)
        state.reserve(reservation_request(made), placement, 0.0)
    return [median(tenth) for tenth in tenths(taken)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.burst", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--replicas", default="1000,4000", help="numbers of replicas, with commas")
    given = parser.parse_args()
    title = f"µs for one choice among {given.nodes:,} nodes, in a burst of one owner"
    table = Table("replicas", "strategy", "first tenth", "dearest tenth", "last tenth", "grows", title=title)
    for replicas in map(int, given.replicas.split(",")):
        for strategy in ("apart", "spread", "pack"):
            times = burst(cluster(given.nodes), replicas, partial(pod, owner=3, gpus=1), strategy)
            cells = [f"{took:.0f}" for took in (times[0], max(times), times[-1])]
            table.add_row(f"{replicas:,}", strategy, *cells, f"× {max(times) / times[0]:.2f}")
    stdout().print(table)


if __name__ == "__main__":
    main()
