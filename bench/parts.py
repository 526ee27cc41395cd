"""Where the CPU of the server goes for one pod on a real control plane: `python -m bench.parts`.

Pods with one GPU are created one after the other and then 64 at once, in a namespace that has opted in. kube-scheduler
binds them, and simulated nodes start them. Measured is the CPU time of the whole server, watches included, from the first
creation until all have started and their last events have come, for each pod. `bench.timed` measures parts of it within the
server; the rest is HTTP, TLS, the event loop and system calls. The same pods in
a namespace without our webhooks tell how much of that is of watches.

With `--against` another version is measured by turns with this one, on the same control plane.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import timed
from bench.load import cpu_seconds
from bench.output import stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.installed import ROOT, Installed, opt_in

TEAM, OTHERS = "parts", "others"
"""A namespace that has opted in, and one that has not."""
PAUSE = 0.03
"""Seconds between two creations, in which the pod is bound and started."""
WAYS = {"one at a time": (400, 1, TEAM), "64 at once": (64, 64, TEAM), "without reviews": (400, 1, OTHERS)}
"""How many pods are created, how many of them at once, and where."""
IDLE_SECONDS = 20.0
WHOLE = "the whole process"
REST = "the rest"
ALONE = "while nothing happens, in the same time"
console = Console(stderr=True)
Taken = dict[str, tuple[float, float]]
"""By part, how often it was done for one pod, and CPU microseconds for one pod."""


def _pod() -> dict[str, Any]:
    made = pod("web")
    made["metadata"]["generateName"] = f"{made['metadata'].pop('name')}-"
    return made


async def created(api: Api, number: int, width: int, namespace: str) -> None:
    """Create pods, `width` at once, and wait until all have started."""
    for _ in range(number // width):
        await asyncio.gather(*(api.create(_pod(), namespace) for _ in range(width)))
        await asyncio.sleep(PAUSE)

    async def running() -> bool:
        return all(each["status"].get("phase") == "Running" for each in await api.pods(namespace))

    await wait_until(running, 120, "the pods to run")
    await asyncio.sleep(1)  # the last events of these pods


async def removed(api: Api, namespace: str) -> None:
    async def none() -> bool:
        return not await api.pods(namespace)

    await api.delete_all("Pod", namespace, gracePeriodSeconds="0")
    await wait_until(none, 120, "the pods of a round to be gone")
    await asyncio.sleep(1)  # the last events of these pods


async def one_round(api: Api, pid: int, file: Path) -> dict[str, Taken]:
    """What one pod took, by how the pods are created. The server may be new: the first pods are not measured."""
    await opt_in(api, TEAM)
    await created(api, 64, 16, TEAM)
    await removed(api, TEAM)
    idle = cpu_seconds(pid)
    await asyncio.sleep(IDLE_SECONDS)
    idle = (cpu_seconds(pid) - idle) / IDLE_SECONDS
    found = {}
    for way, (count, width, namespace) in WAYS.items():
        before, cpu, started = timed.read(file), cpu_seconds(pid), time.monotonic()
        await created(api, count, width, namespace)
        whole, after = (cpu_seconds(pid) - cpu) / count * 1e6, timed.read(file)
        taken = {part: tuple(b - a for a, b in zip(before[part], after[part], strict=True)) for part in timed.PARTS}
        each = {part: (times / count, seconds / count * 1e6) for part, (times, seconds) in taken.items()}
        each[ALONE] = 1, idle * (time.monotonic() - started) / count * 1e6
        found[way] = each | {REST: (1, whole - sum([spent for _, spent in each.values()])), WHOLE: (1, whole)}
        await removed(api, namespace)
    return found


def measure(plane: ControlPlane, sources: list[Path], rounds: int) -> dict[Path, list[dict[str, Taken]]]:
    """For each version, what each round took."""

    async def prepared() -> None:
        async with Api.of(plane.kubeconfig) as api:
            await clusters.apply(api, clusters.cluster("100x8"), 120)
            await api.namespace(TEAM)
            await api.namespace(OTHERS)

    async def run(webhook: Installed, file: Path) -> dict[str, Taken]:
        pid = webhook.members[0].pid
        assert pid is not None
        async with Api.of(plane.kubeconfig) as api:
            return await one_round(api, pid, file)

    found: dict[Path, list[dict[str, Taken]]] = {source: [] for source in sources}
    asyncio.run(prepared())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "parts")
        file.write_bytes(bytes(timed.SIZE))
        before = f"import runpy; runpy.run_path({timed.__file__!r})['install']({str(file)!r})"
        for number in range(rounds):
            for source in sources:
                console.print(f"round {number + 1} of {rounds}: {source}")
                with Installed(plane, before=before, source=source) as webhook:
                    found[source].append(asyncio.run(run(webhook, file)))
    return found


def show(rounds: list[dict[str, Taken]], title: str) -> None:
    table = Table("CPU for one pod, medians", title=title)
    for way in WAYS:
        table.add_column(f"{way}: times", justify="right")
        table.add_column("µs", justify="right")
    for part in (*timed.PARTS, ALONE, REST, WHOLE):
        middle = [[statistics.median(each[way][part][at] for each in rounds) for at in (0, 1)] for way in WAYS]
        table.add_row(part, *[text for times, spent in middle for text in (f"{times:.1f}", f"{spent:.0f}")])
    least = [min(each[way][WHOLE][1] for each in rounds) for way in WAYS]
    table.add_row("its least", *[text for spent in least for text in ("", f"{spent:.0f}")])
    stdout().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="the files of another version")
    args = parser.parse_args()
    sources = [ROOT, *([args.against] if args.against else [])]
    with ControlPlane(find()) as plane:
        found = measure(plane, sources, args.rounds)
    for source, rounds in found.items():
        show(rounds, str(source))


if __name__ == "__main__":
    main()
