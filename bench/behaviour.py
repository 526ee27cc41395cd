"""Whether pods are ever worse off with us: `python -m bench.behaviour --pods 2000`.

Small clusters and pods are drawn by lot (`tests/e2e/behaviour/drawn.py`): taints soft and hard, cordons, several models, pods
with affinity to others and to their own, spread constraints, volumes, ports of the host, gates. Each case is played on the real
scheduler with us and without us side by side, and counted: pods that run, and how long after its creation each was bound.
A case where fewer run with us, or where the last pod runs more than a second later, is named by its seed, and played again alone:
the scheduler draws lots too, among equal nodes, and 60 sides share its time. It counts as worse where it is so in these further
plays, on average: the first was picked for being so.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from tests.controlplane.api import Api
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.e2e.behaviour.case import Case, Side
from tests.e2e.behaviour.drawn import drawn
from tests.e2e.behaviour.play import Played, play
from tests.installed import Installed

_TOGETHER = 30
"""Cases that are played side by side."""
_AGAIN = 3
"""How often a case that was worse is played again."""
_LATE = 1.0
"""Seconds."""


class Times:
    """When each pod was seen first, and when it was seen on a node."""

    def __init__(self) -> None:
        self.came: dict[str, float] = {}
        self.bound: dict[str, float] = {}

    async def watch(self, api: Api) -> None:
        async for _, found in api.watch("Pod"):
            uid, now = found["metadata"]["uid"], time.monotonic()
            self.came.setdefault(uid, now)
            if found["spec"].get("nodeName"):
                self.bound.setdefault(uid, now)

    def of(self, side: Side) -> list[float]:
        """Seconds from creation to a node, of the pods of a side that have one."""
        uids = [found["metadata"]["uid"] for found in side.running]
        return [self.bound[uid] - self.came[uid] for uid in uids if uid in self.bound]


async def _played(plane: ControlPlane, cases: list[Case], times: Times) -> dict[str, Played]:
    async with Api.of(plane.kubeconfig) as api:
        watch = asyncio.create_task(times.watch(api))
        try:
            return await play(api, cases)
        finally:
            watch.cancel()


def _batches(pods: int, seed: int) -> Iterator[list[Case]]:
    cases = (drawn(number) for number in range(seed, seed + pods))
    while True:
        yield [next(cases) for _ in range(_TOGETHER)]


def _fewer(played: Played) -> int:
    return len(played.plain.running) - len(played.ours.running)


def _later(played: Played, times: Times) -> float:
    """Seconds from the last pod without us to the last one with us; 0 where none runs on one side."""
    ours, plain = times.of(played.ours), times.of(played.plain)
    return max(ours) - max(plain) if ours and plain else 0.0


class Worse(NamedTuple):
    """What one play of a case lost."""

    fewer: int
    later: float

    @classmethod
    def of(cls, played: Played, times: Times) -> Worse:
        return cls(_fewer(played), _later(played, times))

    def __bool__(self) -> bool:
        return self.fewer > 0 or (self.fewer == 0 and self.later > _LATE)

    def __str__(self) -> str:
        return f"{self.fewer} fewer, {self.later:.2f} s later"


def main() -> int:
    """Exit status 1 if a case was worse again."""
    parser = argparse.ArgumentParser(prog="python -m bench.behaviour", description=__doc__)
    parser.add_argument("--pods", type=int, default=2000, help="so many pods on each side, at least")
    parser.add_argument("--seed", type=int, default=1000, help="of the first case")
    given = parser.parse_args()
    console, times = Console(), Times()
    done: list[Played] = []
    again: dict[str, list[Worse]] = {}
    with ControlPlane(find("1.37")) as plane, Installed(plane) as webhook:
        for batch in _batches(given.pods, given.seed):
            webhook.forget()
            found = asyncio.run(_played(plane, batch, times))
            done += found.values()
            for case in batch:
                if once := Worse.of(found[case.id], times):
                    where = {side: _told(getattr(found[case.id], side)) for side in ("ours", "plain")}
                    console.print(f"{case.id}: {once}: {where}")
                    again[case.id] = [_alone(plane, case) for _ in range(_AGAIN)]
                    console.print(f"  again: {', '.join(map(str, again[case.id]))}")
            count = sum(len(each.ours.pods) for each in done)
            console.print(f"{count} pods, {len(done)} cases, worse once: {sorted(again) or 'none'}")
            if count >= given.pods:
                break
    _print(console, done, times)
    always = [case for case, plays in sorted(again.items()) if _on_average(plays)]
    console.print(f"worse on average of {_AGAIN} more: {always or 'none'}")
    return bool(always)


def _alone(plane: ControlPlane, case: Case) -> Worse:
    times = Times()
    return Worse.of(asyncio.run(_played(plane, [case], times))[case.id], times)


def _on_average(plays: list[Worse]) -> bool:
    return statistics.mean(play.fewer for play in plays) > 0 or statistics.mean(play.later for play in plays) > _LATE


def _told(side: Side) -> dict[str, Any]:
    return {found["metadata"]["name"]: side.node(found) for found in side.pods} | side.refused


def _print(console: Console, done: list[Played], times: Times) -> None:
    table = Table("", "pods", "run", "refused", "bound after: median", "99 %", "most")
    for name in ("ours", "plain"):
        sides: list[Side] = [getattr(each, name) for each in done]
        after = sorted(seconds for side in sides for seconds in times.of(side)) or [0.0]
        table.add_row(
            {"ours": "with us", "plain": "without us"}[name],
            str(sum(len(side.pods) for side in sides)),
            str(sum(len(side.running) for side in sides)),
            str(sum(len(side.refused) for side in sides)),
            f"{statistics.median(after):.2f} s",
            f"{after[len(after) * 99 // 100]:.2f} s",
            f"{after[-1]:.2f} s",
        )
    console.print(table)
    later = [_later(each, times) for each in done]
    most, middle = max(later), statistics.median(later)
    console.print(
        f"the last pod of a case is bound later with us by {most:.2f} s at most, {middle:.2f} s in the middle"
    )


if __name__ == "__main__":
    raise SystemExit(main())
