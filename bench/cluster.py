"""Placement on a real control plane: `python -m bench.cluster`.

The same Deployments and Jobs are created in the same bursts through kube-apiserver and kube-scheduler: without us, with a
scheduler that packs GPUs itself (MostAllocated), with us, and with two replicas of us behind one address. No pod ends.

The table shows the pods left pending by size, the nodes left with all GPUs free, and the share of pods bound to the first choice
or to any ranked node. `placeable` must be 0: it counts pending pods although some node has enough GPUs free.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from bench.output import save, stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, deployment, job
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.controlplane.settings import Options, most_allocated
from tests.installed import Installed, opt_in
from webhook.text import plural

DECISION = "gpu-admission.io/decision"
SIZES = (1, 2, 4, 8)
"""Numbers of GPUs that a pod may request."""
console = Console(stderr=True)


@dataclass(frozen=True)
class Load:
    """The workloads to create, and the number of nodes with 8 GPUs each."""

    nodes: int
    bursts: tuple[tuple[tuple[str, int, int], ...], ...]
    """The workloads of each burst: kind, number of pods, GPUs of each pod."""

    @property
    def pods(self) -> int:
        return sum(pods for burst in self.bursts for _, pods, _ in burst)

    @property
    def gpus(self) -> int:
        return sum(pods * gpus for burst in self.bursts for _, pods, gpus in burst)


def load(nodes: int, pods: int, fill: float, bursts: int, seed: int) -> Load:
    """At most `pods` pods of 1, 2, 4 and 8 GPUs in random order. `fill`: the share of all GPUs that they request together."""
    draw = random.Random(seed)
    left, budget = pods, int(nodes * 8 * fill)
    workloads: list[tuple[str, int, int]] = []
    while left and budget:
        mean = budget / left  # sizes near the GPUs left for each pod are drawn most often
        sizes = [size for size in SIZES if size <= budget]
        gpus = draw.choices(sizes, [1 / (1 + abs(size - mean)) ** 2 for size in sizes])[0]
        count = min(left, budget // gpus, draw.choice((1, 2, 2, 4, 8)))
        workloads.append((draw.choice(("Deployment", "Job")), count, gpus))
        left, budget = left - count, budget - count * gpus
    draw.shuffle(workloads)
    size = -(-len(workloads) // bursts)
    return Load(nodes, tuple(tuple(workloads[i : i + size]) for i in range(0, len(workloads), size)))


@dataclass
class Outcome:
    """Where the pods of a load were bound."""

    pending: Counter[int] = field(default_factory=Counter)
    """Number of pods without a node, by the GPUs that they request."""
    whole: int = 0
    """Nodes with all GPUs free."""
    placeable: int = 0
    """Pending pods although some node has enough GPUs free."""
    bound: Counter[str] = field(default_factory=Counter)
    """How many bound pods with a chosen node are on the `first` ranked node, another `ranked` one, or an `other` one."""
    chosen: int = 0
    """Number of bound pods with a chosen node."""
    seconds: float = 0.0
    """From the first creation until the scheduler had nothing left to do."""

    def share(self, *where: str) -> str:
        """The share of the pods with a chosen node that were bound there, in percent; "" if there are none."""
        return f"{sum(self.bound[name] for name in where) / self.chosen:.1%}" if self.chosen else ""


async def replay(api: Api, asked: Load, namespace: str) -> Outcome:
    """Create the nodes and then the load, burst by burst; after each wait until the scheduler has nothing left to do."""
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
    """Wait until every pod exists and is bound or unschedulable. With unschedulable pods nothing may change for 15 s.

    `patience`: seconds until TimeoutError.
    """
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
    """Count the pods by what is stored of them."""
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


def _reviews(webhook: Installed) -> list[int]:
    """How many reviews each replica has answered."""
    return [
        sum(
            int(value)
            for name, value in webhook.metrics(number).items()
            if name.startswith("gpu_admission_review_seconds_count")
        )
        for number in range(len(webhook.members))
    ]


def run(asked: Load, who: str, policy: str | None = None) -> Outcome:
    """One run on a fresh control plane. `who`: a key of TITLES. `policy`: YAML to use instead of the shipped policy."""
    options = Options(scheduler=most_allocated()) if who == "packing" else Options()
    if two := who == "two":  # each review to another replica, even of one connection (WebhookRoundTripLoadBalancing)
        options = Options(apiserver=("--enable-aggregator-routing=true",))
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(find(), options))
        if who in ("one", "two"):
            webhook = stack.enter_context(Installed(plane, policy, 1 + two, reachable=two, routed=two))
            stack.callback(lambda: console.print(f"reviews by replica: {_reviews(webhook)}"))

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
    """A column for each run."""
    table = Table(Column(no_wrap=True), *(TITLES[who] for who in outcomes), title=title)
    for size in SIZES:
        table.add_row(f"pending, {plural(size, 'GPU')}", *[str(each.pending[size]) for each in outcomes.values()])
    table.add_row("placeable", *[str(each.placeable) for each in outcomes.values()])
    table.add_row("whole nodes free", *[str(each.whole) for each in outcomes.values()])
    table.add_row("on the first choice", *[each.share("first") for each in outcomes.values()])
    table.add_row("on a ranked node", *[each.share("first", "ranked") for each in outcomes.values()])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--pods", type=int, default=700)
    parser.add_argument("--fill", type=float, default=0.95, help="share of all GPUs that is asked for (default 0.95)")
    parser.add_argument("--bursts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--who", default=",".join(TITLES), help=f"some of {', '.join(TITLES)}; all by default")
    parser.add_argument("--policy", type=Path, help="a policy.yaml instead of the shipped one")
    parser.add_argument("--out", type=Path, help="folder for cluster.json, which is written after each run")
    args = parser.parse_args()
    asked = load(args.nodes, args.pods, args.fill, args.bursts, args.seed)
    title = f"{args.nodes} nodes of 8 GPUs; {asked.pods} pods ask for {asked.gpus} GPUs in {len(asked.bursts)} bursts"
    outcomes: dict[str, Outcome] = {}
    for who in args.who.split(","):
        outcomes[who] = run(asked, who, args.policy.read_text() if args.policy else None)
        console.print(f"{TITLES[who]}: {outcomes[who].seconds:.0f} s")
        results = {"load": vars(asked), "found": {name: vars(outcome) for name, outcome in outcomes.items()}}
        save(args.out, "cluster.json", json.dumps(results, indent=1))
    stdout().print(tabled(outcomes, title))


if __name__ == "__main__":
    main()
