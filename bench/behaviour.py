"""Whether pods are ever worse off with us: `python -m bench.behaviour --pods 2000`.

Small clusters and pods are drawn at random (`bench/drawn.py`): soft and hard taints, cordons, several GPU models,
affinity to other pods and to pods of the same owner, spread constraints, volumes, host ports, scheduling gates. Each case is
played on the real scheduler twice, with us and without us, side by side. The benchmark counts the pods that run, and measures
the time from the creation of each pod until it is bound.

A case is suspect if fewer pods run with us, or if the last pod is bound more than a second later. Its seed is printed, and it is
played alone three more times: the scheduler chooses at random among equal nodes, and in the first play 60 sides share its time.
The case counts as worse if it is worse on average of these further plays. The first play is not in the average, because the case
was picked for it.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench import drawn, drawn_devices
from bench.output import stdout
from tests.controlplane.api import Api
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.e2e.behaviour.case import Case, Side
from tests.e2e.behaviour.play import Played, play
from tests.installed import Installed

_TOGETHER = 30
"""Cases played at the same time."""
_AGAIN = 3
"""How often a suspect case is played again."""
_LATE = 1.0
"""Seconds by which the last pod of a case may be bound later with us."""


class Times:
    """When each pod was created and when it was bound, by its uid, as a watch saw it. Seconds."""

    def __init__(self) -> None:
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}

    async def watch(self, api: Api) -> None:
        async for _, pod in api.watch("Pod"):
            uid, now = pod["metadata"]["uid"], time.monotonic()
            self.created.setdefault(uid, now)
            if pod["spec"].get("nodeName"):
                self.bound.setdefault(uid, now)

    def of(self, side: Side) -> list[float]:
        """Seconds from creation to binding, for each pod of a side that was bound."""
        uids = [pod["metadata"]["uid"] for pod in side.running]
        return [self.bound[uid] - self.created[uid] for uid in uids if uid in self.bound]


async def _played(plane: ControlPlane, cases: list[Case], times: Times) -> dict[str, Played]:
    async with Api.of(plane.kubeconfig) as api:
        watch = asyncio.create_task(times.watch(api))
        try:
            return await play(api, cases)
        finally:
            watch.cancel()


def _batches(seed: int, draw: Callable[[int], Case], together: int) -> Iterator[list[Case]]:
    """Endless. `seed`: of the first case."""
    while True:
        yield [draw(number) for number in range(seed, seed + together)]
        seed += together


def _used(side: Side) -> float:
    """The GPUs of the pods that run, where their label says how many; otherwise the pods."""
    return sum(float(pod["metadata"]["labels"].get("gpus", 1)) for pod in side.running)


def _later(played: Played, times: Times) -> float:
    """How many seconds later the last pod was bound with us than without us; 0 if no pod runs on one side."""
    ours, plain = times.of(played.ours), times.of(played.plain)
    return max(ours) - max(plain) if ours and plain else 0.0


class Worse(NamedTuple):
    """How one play of a case with us compares with the play without us. It is true if it is worse."""

    fewer: float
    """How many pods fewer run, or GPUs fewer are in use; negative if more."""
    later: float
    """Seconds by which the last pod is bound later."""

    @classmethod
    def of(cls, played: Played, times: Times) -> Worse:
        return cls(_used(played.plain) - _used(played.ours), _later(played, times))

    def __bool__(self) -> bool:
        return self.fewer > 0 or (self.fewer == 0 and self.later > _LATE)

    def __str__(self) -> str:
        return f"{self.fewer:g} fewer, {self.later:.2f} s later"


def main() -> int:
    """Exit status 1 if a case was worse on average of its further plays."""
    parser = argparse.ArgumentParser(prog="python -m bench.behaviour", description=__doc__)
    parser.add_argument("--pods", type=int, default=2000, help="minimum number of pods on each side")
    parser.add_argument("--seed", type=int, default=1000, help="seed of the first case; each case adds one")
    parser.add_argument("--devices", action="store_true", help="cases of DRA devices (bench/drawn_devices.py)")
    parser.add_argument("--together", type=int, default=_TOGETHER, help="cases played at the same time")
    given = parser.parse_args()
    draw = drawn_devices.drawn if given.devices else drawn.drawn
    console, times = stdout(), Times()
    done: list[Played] = []
    again: dict[str, list[Worse]] = {}
    with ControlPlane(find("1.37")) as plane, Installed(plane):
        for batch in _batches(given.seed, draw, given.together):
            played = asyncio.run(_played(plane, batch, times))
            done += played.values()
            for case in batch:
                if once := Worse.of(played[case.id], times):
                    where = {side: _nodes_of(getattr(played[case.id], side)) for side in ("ours", "plain")}
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


def _nodes_of(side: Side) -> dict[str, Any]:
    """The node of each pod by name, and the message of each refused pod."""
    return {pod["metadata"]["name"]: side.node(pod) for pod in side.pods} | side.refused


def _print(console: Console, done: list[Played], times: Times) -> None:
    table = Table("", "pods", "run", "used", "refused", "bound after: median", "99 %", "most")
    for name in ("ours", "plain"):
        sides: list[Side] = [getattr(each, name) for each in done]
        after = sorted(seconds for side in sides for seconds in times.of(side)) or [0.0]
        table.add_row(
            {"ours": "with us", "plain": "without us"}[name],
            str(sum(len(side.pods) for side in sides)),
            str(sum(len(side.running) for side in sides)),
            f"{sum(map(_used, sides)):g}",
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
