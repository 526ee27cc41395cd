"""What a pod's creation costs more with us: `python -m bench.creates`.

The same one-GPU pod is created through kube-apiserver by turns in a namespace that has opted in and in one that has not, in
one run: one at a time, and 50 at once. With us means both webhooks over TLS, the choice of a node and its reservation.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.installed import Installed, opt_in

Times = dict[str, list[float]]


async def one(api: Api, namespace: str, number: int) -> float:
    started = time.perf_counter()
    await api.create(pod(f"p{number}"), namespace)
    return time.perf_counter() - started


async def singly(api: Api, count: int, start: int) -> Times:
    found: Times = {"plain": [], "ours": []}
    for number in range(start, start + count):
        for namespace, times in found.items():
            times.append(await one(api, namespace, number))
    return found


async def at_once(api: Api, count: int, start: int, width: int = 50) -> Times:
    found: Times = {"plain": [], "ours": []}
    for first in range(start, start + count, width):
        for namespace, times in found.items():
            times.extend(await asyncio.gather(*(one(api, namespace, number) for number in range(first, first + width))))
    return found


def percentile(times: list[float], share: float) -> float:
    ranked = sorted(times)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] * 1e3


async def measure(plane: ControlPlane, count: int) -> dict[str, Times]:
    """Pods stay pending in neither namespace for want of GPUs: the nodes are many, and pods go between the two parts."""
    async with Api.of(plane.kubeconfig) as api:
        await clusters.apply(api, clusters.cluster("100x8"), 120)
        for namespace in ("plain", "ours"):
            await api.namespace(namespace)
        await opt_in(api, "ours")
        found: dict[str, Times] = {}
        parts: list[tuple[str, Callable[[Api, int, int], Coroutine[Any, Any, Times]]]]
        parts = [("one at a time", singly), ("50 at once", at_once)]
        for name, part in parts:
            await part(api, 50, 0)  # warm
            found[name] = await part(api, count, 50)
            for namespace in ("plain", "ours"):
                await api.delete_all("Pod", namespace, gracePeriodSeconds="0")
            await asyncio.sleep(3)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="pods in each namespace and part (default 300)")
    args = parser.parse_args()
    with ControlPlane(find()) as plane, Installed(plane):
        found = asyncio.run(measure(plane, args.count))
    table = Table("pods are created", "", "p50 ms", "p99 ms")
    for part, times in found.items():
        for namespace, title in (("plain", "without us"), ("ours", "with us")):
            table.add_row(part, title, *(f"{percentile(times[namespace], share):.2f}" for share in (0.5, 0.99)))
        added = [percentile(times["ours"], share) - percentile(times["plain"], share) for share in (0.5, 0.99)]
        table.add_row("", "added", *(f"{value:.2f}" for value in added), end_section=True)
    Console().print(table)


if __name__ == "__main__":
    main()
