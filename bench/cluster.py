"""Placement on a real control plane: `python -m bench.cluster`.

The same Deployments and Jobs, in the same bursts, through kube-apiserver and kube-scheduler: without us, with a scheduler
that packs GPUs itself (MostAllocated), with us, and with two replicas of us behind one address. Pods stay; nothing ends.
Printed: pods left pending by size, whole nodes left free, and how often the first choice, or one of the ranked nodes,
was where the pod was bound. The rest of the time is the control plane's, not ours. `placeable` must be 0: pods that had no node
though some node had as many GPUs free.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from bench.output import stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.controlplane.settings import Options, most_allocated
from tests.installed import Installed, opt_in
from webhook.text import plural

Json = dict[str, Any]
DECISION = "gpu-admission.io/decision"
SIZES = (1, 2, 4, 8)
"""GPUs of a pod."""
console = Console(stderr=True)


@dataclass(frozen=True)
class Load:
    """What is asked of the cluster: `bursts` lists of workloads, each (kind, pods, GPUs of each)."""

    nodes: int
    bursts: tuple[tuple[tuple[str, int, int], ...], ...]

    @property
    def pods(self) -> int:
        return sum(pods for burst in self.bursts for _, pods, _ in burst)

    @property
    def gpus(self) -> int:
        return sum(pods * gpus for burst in self.bursts for _, pods, gpus in burst)


def load(nodes: int, pods: int, fill: float, bursts: int, seed: int) -> Load:
    """At most `pods` pods of 1, 2, 4 and 8 GPUs that together ask for `fill` of all GPUs, in random order."""
    draw = random.Random(seed)
    left, budget = pods, int(nodes * 8 * fill)
    found: list[tuple[str, int, int]] = []
    while left and budget:
        mean = budget / left  # as many GPUs for each pod as are left for it
        sizes = [size for size in SIZES if size <= budget]
        gpus = draw.choices(sizes, [1 / (1 + abs(size - mean)) ** 2 for size in sizes])[0]
        count = min(left, budget // gpus, draw.choice((1, 2, 2, 4, 8)))
        found.append((draw.choice(("Deployment", "Job")), count, gpus))
        left, budget = left - count, budget - count * gpus
    draw.shuffle(found)
    size = -(-len(found) // bursts)
    return Load(nodes, tuple(tuple(found[i : i + size]) for i in range(0, len(found), size)))


@dataclass
class Outcome:
    """What became of a load."""

    pending: Counter[int] = field(default_factory=Counter)
    """Pods without a node, by their GPUs."""
    whole: int = 0
    """Nodes with all GPUs free."""
    placeable: int = 0
    """Pending pods for which some node had enough GPUs."""
    bound: Counter[str] = field(default_factory=Counter)
    """`first`, `ranked` or `other`, of the pods that had a choice."""
    chosen: int = 0
    seconds: float = 0.0
    """From the first creation until the scheduler had nothing left to do; control plane and waiting included."""

    def share(self, *where: str) -> str:
        """Of the pods with a choice, how many were bound there; empty where none had one."""
        return f"{sum(self.bound[name] for name in where) / self.chosen:.1%}" if self.chosen else ""


async def replay(api: Api, asked: Load, namespace: str) -> Outcome:
    """Create the load, burst by burst, and wait until the scheduler has nothing left to do."""
    await clusters.apply(
        api, [node(f"node-{number:03d}", cpu="192", memory="2Ti") for number in range(asked.nodes)], 180
    )
    number, created, started = 0, 0, time.monotonic()
    for burst in asked.bursts:
        made = []
        for kind, pods, gpus in burst:
            number += 1
            created += pods
            build = deployment if kind == "Deployment" else job
            container = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": str(4 * gpus)}}}
            made.append(api.create(build(f"w{number}", pods, gpus, container=container), namespace))
        await asyncio.gather(*made)
        await settled(api, namespace, created)
    outcome = judged(await api.pods(namespace), asked)
    outcome.seconds = round(time.monotonic() - started, 1)
    return outcome


async def settled(api: Api, namespace: str, created: int, patience: float = 300) -> None:
    """Until every pod exists, and is bound or was found to fit nowhere, and stays so."""
    deadline, last, since = time.monotonic() + patience, None, time.monotonic()
    while time.monotonic() < deadline:
        pods = await api.pods(namespace)
        bound = sum(bool(p["spec"].get("nodeName")) for p in pods)
        unfit = sum(_unschedulable(p) and not p["spec"].get("nodeName") for p in pods)
        now = (len(pods), bound)
        if now != last:
            last, since = now, time.monotonic()
        if len(pods) >= created and bound + unfit == len(pods) and (not unfit or time.monotonic() - since > 15):
            return
        await asyncio.sleep(0.5)
    raise TimeoutError(f"{created} pods wanted; {last} exist and are bound after {patience:g} s")


def _unschedulable(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions)


def _gpus(pod: Json) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])


def judged(pods: list[Json], asked: Load) -> Outcome:
    """Count what the stored pods say."""
    outcome = Outcome()
    free = {f"node-{number:03d}": 8 for number in range(asked.nodes)}
    for pod in pods:
        if name := pod["spec"].get("nodeName"):
            free[name] -= _gpus(pod)
            record = json.loads(pod["metadata"].get("annotations", {}).get(DECISION, "{}"))
            if nodes := [entry[0] for entry in record.get("nodes", ())]:
                outcome.chosen += 1
                outcome.bound["first" if name == nodes[0] else "ranked" if name in nodes else "other"] += 1
        else:
            outcome.pending[_gpus(pod)] += 1
    largest = max(free.values())
    outcome.placeable = sum(count for gpus, count in outcome.pending.items() if gpus <= largest)
    outcome.whole = sum(amount == 8 for amount in free.values())
    return outcome


def run(asked: Load, who: str, policy: str | None = None) -> Outcome:
    """`who`: stock, packing, one, two. `policy`: instead of the shipped one."""
    options = Options(scheduler=most_allocated()) if who == "packing" else Options()
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(find(), options))
        if who in ("one", "two"):
            stack.enter_context(Installed(plane, policy, 2 if who == "two" else 1))

        async def work() -> Outcome:
            async with Api.of(plane.kubeconfig) as api:
                await api.namespace("load")
                if who in ("one", "two"):
                    await opt_in(api, "load")
                return await replay(api, asked, "load")

        return asyncio.run(work())


TITLES = {
    "stock": "scheduler alone",
    "packing": "MostAllocated",
    "one": "with us",
    "two": "two replicas",
}


def tabled(outcomes: dict[str, Outcome], title: str) -> Table:
    """One column for each, so that what is pending stands side by side."""
    table = Table(Column(no_wrap=True), *(TITLES[who] for who in outcomes), title=title)
    rows: dict[str, Callable[[Outcome], object]] = {
        **{f"pending, {plural(size, 'GPU')}": partial(_pending, size) for size in SIZES},
        "placeable": lambda found: found.placeable,
        "whole nodes free": lambda found: found.whole,
        "on the first choice": lambda found: found.share("first"),
        "on a ranked node": lambda found: found.share("first", "ranked"),
    }
    for name, read in rows.items():
        table.add_row(name, *(str(read(found)) for found in outcomes.values()))
    return table


def _pending(size: int, found: Outcome) -> int:
    return found.pending[size]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=700)
    parser.add_argument("--fill", type=float, default=0.95, help="share of all GPUs that is asked for (default 0.95)")
    parser.add_argument("--bursts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--who", default=",".join(TITLES), help=f"of {', '.join(TITLES)}; all by default")
    parser.add_argument("--policy", type=Path, help="a policy.yaml instead of the shipped one")
    parser.add_argument("--out", type=Path, help="a folder for cluster.json, written again after each of them")
    args = parser.parse_args()
    asked = load(args.nodes, args.pods, args.fill, args.bursts, args.seed)
    title = f"{args.nodes} nodes of 8 GPUs; {asked.pods} pods ask for {asked.gpus} GPUs in {len(asked.bursts)} bursts"
    outcomes: dict[str, Outcome] = {}
    for who in args.who.split(","):
        outcomes[who] = run(asked, who, args.policy.read_text() if args.policy else None)
        console.print(f"{TITLES[who]}: {outcomes[who].seconds:.0f} s")
        if args.out is not None:
            args.out.mkdir(parents=True, exist_ok=True)
            found = {name: vars(outcome) for name, outcome in outcomes.items()}
            (args.out / "cluster.json").write_text(json.dumps({"load": vars(asked), "found": found}, indent=1))
    stdout().print(tabled(outcomes, title))


if __name__ == "__main__":
    main()
