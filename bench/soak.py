"""Whether the server grows or fails with time: `make soak MINUTES=120`, or `python -m bench.soak --minutes 120`.

Two replicas on a real control plane. Clients create pods all the while, about 50 a second. Every ten seconds the policy changes,
every minute the CA is replaced. Each minute the memory, the open files and the threads of both replicas are read. Exit status 1
if a creation failed, or if a replica grew by more than 1 MB an hour after the first third of the time. Growth is judged from an
hour on: less says nothing.
"""

import argparse
import asyncio
import sys
import time
from itertools import count
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.faults import OURS, Load
from bench.output import percentile, stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.e2e.scene import POLICY, SECRET, Scene, sooner
from tests.installed import NAMESPACE, SHIPPED, Installed, opt_in

_MOST_GROWTH = 1.0
"""MB for each hour."""
_JUDGED_FROM = 60
"""Minutes."""
progress = Console(stderr=True)


def sample(pid: int) -> tuple[float, int, int]:
    """MB of memory of its own, open files, threads. Linux only. Pages of files do not count: the kernel drops and reads them."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return int(status["RssAnon"].split()[0]) / 1000, files, int(status["Threads"])


async def changes(scene: Scene) -> None:
    """Policies and certificates, for ever."""
    for number in count():
        text = SHIPPED if number % 2 else "profiles: {default: {}}\n"
        await scene.api.patch("ConfigMap", POLICY, {"data": {"policy.yaml": text}}, NAMESPACE)
        if number % 6 == 5:
            await scene.api.patch("Secret", SECRET, {"data": None}, NAMESPACE)
        await asyncio.sleep(10)


async def soaked(minutes: float) -> int:
    samples = list[tuple[float, list[tuple[float, int, int]]]]()
    with ControlPlane(find("1.37")) as plane, Installed(plane, replicas=2, before=sooner()) as webhook:
        async with Api.of(plane.kubeconfig) as api:
            await clusters.apply(api, clusters.cluster("two-node"))
            await api.namespace(OURS)
            await opt_in(api, OURS)
            changing = asyncio.create_task(changes(Scene(plane, webhook, api)))
            async with Load(api).running(4, pause=0.08) as load:
                started = time.monotonic()
                while time.monotonic() < started + minutes * 60:
                    await asyncio.sleep(min(60.0, minutes * 6))
                    found = [sample(member.pid) for member in webhook.members if member.pid is not None]
                    samples.append(((time.monotonic() - started) / 3600, found))
                    progress.print(
                        f"{samples[-1][0] * 60:.0f} min: {load.tried} creations, {len(load.failed)} failed, {found}"
                    )
                    if changing.done():
                        changing.result()
            changing.cancel()
    return told(load, samples, minutes)


def told(load: Load, samples: list[tuple[float, list[tuple[float, int, int]]]], minutes: float) -> int:
    """Prints the table; the exit status."""
    kept = samples[len(samples) // 3 :]
    hours = [when for when, _ in kept]
    table = Table("replica", "MB at first", "MB at last", "MB an hour", "open files", "threads")
    growth = []
    for number in range(2):
        of = [found[number] for _, found in kept]
        growth.append(float(np.polyfit(hours, [each[0] for each in of], 1)[0]) if len(of) > 1 else 0.0)
        first, last = samples[0][1][number], of[-1]
        files, threads = f"{first[1]} → {last[1]}", f"{first[2]} → {last[2]}"
        table.add_row(str(number), f"{first[0]:.1f}", f"{last[0]:.1f}", f"{growth[-1]:+.1f}", files, threads)
    out = stdout()
    out.print(table)
    out.print(
        f"{load.tried} creations in {minutes:g} minutes, {len(load.failed)} failed, {load.undecided} without a decision; "
        f"p50 {percentile(load.times, 0.5):.0f} ms, p99 {percentile(load.times, 0.99):.0f} ms"
    )
    grew = minutes >= _JUDGED_FROM and max(growth) > _MOST_GROWTH
    return int(bool(load.failed or load.undecided or grew))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long; default %(default)s")
    return asyncio.run(soaked(parser.parse_args().minutes))


if __name__ == "__main__":
    sys.exit(main())
