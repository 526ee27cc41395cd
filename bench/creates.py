"""How much longer a pod's creation takes with us: `python -m bench.creates`.

The same one-GPU pod is created through kube-apiserver in six namespaces by turns, one pod at a time and then 50 at once:

- plain and again: no webhook. The difference between these two is the noise of the measurement.
- least: a mutating and a validating webhook that decide nothing (`bench.least`): the time that any webhooks take.
- patched: webhooks that decide nothing either, but the patch is one of ours: what the API server takes for a larger pod.
- ours: both our webhooks over TLS, the choice of a node and its reservation.
- refused: our webhooks again, but the pod sets NVIDIA_VISIBLE_DEVICES and is refused.

Rounds are short, and the order of the namespaces changes, so that other load on the machine meets all of them. The table has
medians over the rounds; the time that is added is the median of the differences within a round. All pods of a burst are bound
before the next burst, and deleted after each round, so that each turn meets the same quiet cluster. We may add at most 1.5 times
the time that webhooks add that decide nothing.
"""

import argparse
import asyncio
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.least import command, configurations, started
from bench.output import percentile, save, stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.installed import Installed, opt_in
from webhook.tls.issue import write_certificates

SIDES = {
    "plain": "no webhook",
    "again": "no webhook, again",
    "least": "webhooks without a decision",
    "patched": "our patch without a decision",
    "ours": "with us",
    "refused": "refused by us",
}
PLAIN, AGAIN, LEAST, PATCHED, OURS, REFUSED = SIDES
SHARES = {"p50": 0.5, "p99": 0.99}
WIDTH = 50
"""Creations at once, in a burst."""
MOST = 1.5
"""The most that we may add, as a multiple of what webhooks add that decide nothing."""
PAUSE = 0.05
"""Seconds between two creations: the control plane takes some 20 ms of CPU time to schedule, bind and start a pod."""
ADDED = ("tolerations", "priorityClassName", "priority", "preemptionPolicy", "topologySpreadConstraints", "affinity")
"""The fields of the spec that we write, if we write them."""
Times = dict[str, list[float]]
"""Milliseconds of each creation, by side."""
console = Console(stderr=True)


def turns() -> Iterator[tuple[str, ...]]:
    """The sides in every order, endlessly."""
    return itertools.cycle(itertools.permutations(SIDES))


async def one(api: Api, side: str) -> float:
    """Create one pod. Returns milliseconds. The API server generates its name, as for the pods of a controller."""
    made = pod("web")
    del made["metadata"]["name"]
    made["metadata"]["generateName"] = "web-"
    if side == REFUSED:
        made["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    status, started = 201, time.perf_counter()
    try:
        await api.create(made, side)
    except ApiError as error:
        status = error.status
    spent = (time.perf_counter() - started) * 1e3
    assert status == (403 if side == REFUSED else 201)
    return spent


async def singly(api: Api, count: int) -> Times:
    """Create `count` pods on each side, one at a time and by turns, each after the one before is scheduled."""
    times: Times = {side: [] for side in SIDES}
    for _, order in zip(range(count), turns(), strict=False):
        for side in order:
            await asyncio.sleep(PAUSE)
            times[side].append(await one(api, side))
    return times


async def at_once(api: Api, count: int) -> Times:
    """Create `count` pods on each side in bursts, each after the pods of the burst before are bound."""
    times: Times = {side: [] for side in SIDES}
    for start, order in zip(range(0, count, WIDTH), turns(), strict=False):
        for side in order:
            width = min(WIDTH, count - start)
            times[side] += await asyncio.gather(*(one(api, side) for _ in range(width)))
            await settled(api, side)
    return times


PARTS: dict[str, Callable[[Api, int], Awaitable[Times]]] = {"one at a time": singly, f"{WIDTH} at once": at_once}


async def settled(api: Api, side: str) -> None:
    async def running() -> bool:
        return all(p["status"].get("phase") == "Running" for p in await api.pods(side))

    await wait_until(running, 120, f"the pods of {side} to run")


async def cleared(api: Api) -> None:
    async def none() -> bool:
        return not any([await api.pods(side) for side in SIDES])

    for side in SIDES:
        await settled(api, side)
        await api.delete_all("Pod", side, gracePeriodSeconds="0")
    await wait_until(none, 120, "the pods of a round to be gone")
    await asyncio.sleep(1)  # the last events of these pods


async def our_patch(api: Api) -> list[dict[str, Any]]:
    """What we change in the pod, as a JSON Patch: from one that was created with us."""
    await one(api, OURS)
    (stored,) = await api.pods(OURS)
    await api.delete_all("Pod", OURS, gracePeriodSeconds="0")
    spec, annotations = stored["spec"], stored["metadata"]["annotations"]
    values = {f"/spec/{field}": spec[field] for field in ADDED if field in spec}
    values |= {"/spec/containers/0/resources": spec["containers"][0]["resources"], "/metadata/annotations": annotations}
    return [{"op": "add", "path": path, "value": value} for path, value in values.items()]


async def prepared(plane: ControlPlane) -> list[dict[str, Any]]:
    """Makes the nodes and the namespaces. Returns our patch. No pod will wait for a GPU: there are 800, more than the pods of a
    round."""
    async with Api.of(plane.kubeconfig) as api:
        await clusters.apply(api, clusters.cluster("100x8"), 120)
        for side in SIDES:
            await api.namespace(side)
        for side in (OURS, REFUSED):
            await opt_in(api, side)
        return await our_patch(api)


async def measure(plane: ControlPlane, hooks: list[dict[str, Any]], rounds: int, count: int) -> dict[str, list[Times]]:
    """The times of all rounds, by part."""
    async with Api.of(plane.kubeconfig) as api:
        for hook in hooks:
            await api.create(hook)
        measured: dict[str, list[Times]] = {part: [] for part in PARTS}
        for number in range(rounds + 1):
            for part, run in PARTS.items():
                console.print(f"round {number} of {rounds}: {part}")
                times = await run(api, count if number else min(count, WIDTH // 2))
                await cleared(api)
                if number:  # the first round only warms up connections and caches
                    measured[part].append(times)
        return measured


def summary(rounds: list[Times]) -> dict[str, dict[str, float]]:
    """p50 and p99 in milliseconds for each row of the table: the time of each side, and how much more it takes than plain."""
    each = [{s: {p: percentile(times[s], share) for p, share in SHARES.items()} for s in SIDES} for times in rounds]
    rows = {title: {p: statistics.median(r[s][p] for r in each) for p in SHARES} for s, title in SIDES.items()}
    added = {
        AGAIN: "noise: the second less the first",
        LEAST: "added by any webhooks",
        PATCHED: "added by our patch without a decision",
        OURS: "added by us",
        REFUSED: "a refusal less a plain creation",
    }
    for side, title in added.items():
        rows[title] = {p: statistics.median(r[side][p] - r[PLAIN][p] for r in each) for p in SHARES}
    return rows


def times_any(rows: dict[str, dict[str, float]], share: str) -> float:
    """The time that we add, as a multiple of the time that webhooks add that decide nothing."""
    any_webhooks = rows["added by any webhooks"][share]
    return rows["added by us"][share] / any_webhooks if any_webhooks > 0 else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4, help="rounds of each part (default 4)")
    parser.add_argument("--count", type=int, default=50, help="pods of each side in a round (default 50)")
    parser.add_argument("--out", type=Path, help="folder for creates.json: the table, and the times of all rounds")
    args = parser.parse_args()
    console.print("starting a control plane and the webhook")
    with ControlPlane(find()) as plane, Installed(plane), tempfile.TemporaryDirectory() as folder:
        ca, cert, key = write_certificates(Path(folder), ["127.0.0.1"])
        patch = Path(folder, "patch.json")
        patch.write_text(json.dumps(asyncio.run(prepared(plane))))
        with started(command(cert, key, patch)) as (port, _):
            hooks = [*configurations(port, ca, LEAST, "nothing"), *configurations(port, ca, PATCHED, "patched")]
            measured = asyncio.run(measure(plane, hooks, args.rounds, args.count))
    table = Table("pods are created", "", "p50 ms", "p99 ms", title=f"medians of {args.rounds} rounds")
    summaries = {part: summary(rounds) for part, rounds in measured.items()}
    for part, rows in summaries.items():
        for title, row in rows.items():
            table.add_row(part, title, *(f"{row[p]:.2f}" for p in SHARES))
        ratios = [f"× {times_any(rows, share):.2f}" for share in SHARES]
        table.add_row(part, f"added by us / by any webhooks (at most {MOST})", *ratios, end_section=True)
    stdout().print(table)
    save(args.out, "creates.json", json.dumps({"summary": summaries, "rounds": measured}, indent=1))


if __name__ == "__main__":
    main()
