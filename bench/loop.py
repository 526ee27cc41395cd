"""What the program does for one pod, without a server: `python -m bench.loop`.

Time in one loop, admitted and refused pods in turns: replicas of 500 workloads that go through both hooks. Those that are
admitted are bound, and seen in the watch, which ends their reservations; those that are refused, for the commonest theft,
never come, and their reservations end with their time. Their bodies are of the same length.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, BinaryIO

import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.output import stdout
from bench.samples import admitted, as_stored, cluster, pod, refused, review
from webhook.cli.offline import load_policy, load_state
from webhook.cluster.pods import ranked_nodes
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers
from webhook.server.process import Recorder
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

_MUTATE, _VALIDATE, _SEEN = _STEPS = "mutate", "validate", "seen in the watch"
_AGAIN = "validate once more"
Object = dict[str, Any]


class _Policies:
    current = load_policy()


class Program:
    """Both hooks, with a cluster of their own. `taken`: microseconds for a pod, by step, one value for each round."""

    def __init__(self, nodes: int, kind: Callable[[Object], Object], count: int, nowhere: BinaryIO) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "cluster.json")
            file.write_bytes(orjson.dumps(cluster(nodes)))
            self.state = load_state(file)
        recorder = Recorder(Metrics(), logs.configure(nowhere))
        self._hooks = Handlers(_Policies(), self.state, Placer(self.state), recorder, lambda: 0.0)
        self._bodies = [review(number, kind(pod(number))) for number in range(count)]
        self.taken: dict[str, list[float]] = {}

    def round(self) -> None:
        """All pods through both hooks; those that are admitted are seen. Nothing of them stays."""
        answers = self._timed(_MUTATE, self._hooks.mutate, self._bodies)
        named = enumerate(zip(self._bodies, answers, strict=True))
        pods = [as_stored(number, body, answer) for number, (body, (_, answer)) in named]
        bodies = [review(number, obj) for number, obj in enumerate(pods)]
        allowed = [b'"allowed":true' in answer for _, answer in self._timed(_VALIDATE, self._hooks.validate, bodies)]
        bound = [self._bound(obj) for obj, may_come in zip(pods, allowed, strict=True) if may_come]
        self._timed(_SEEN, partial(self.state.pod_seen, now=0.0), bound)
        for obj in bound:
            self.state.pod_gone(obj, 0.0)
        self.state.expire(self.state.ledger.unseen_ttl)  # the reservations of those that were refused
        assert not self.state.ledger.reserving, "every reservation has ended"
        self._timed(_AGAIN, self._hooks.validate, bodies)

    @staticmethod
    def _bound(obj: Object) -> Object:
        return obj | {"spec": obj["spec"] | {"nodeName": ranked_nodes(obj)[0]}, "status": {"phase": "Running"}}

    def _timed(self, step: str, do: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        if not items:
            return []
        started = perf_counter()
        found = [do(item) for item in items]
        self.taken.setdefault(step, []).append((perf_counter() - started) / len(items) * 1e6)
        return found


async def measure(nodes: int, rounds: int, count: int, nowhere: BinaryIO) -> dict[str, Program]:
    """Both kinds of pods, after two rounds that are not counted."""
    kinds = {"admitted": admitted, "refused": refused}
    programs = {name: Program(nodes, kind, count, nowhere) for name, kind in kinds.items()}
    for number in track(range(rounds + 2), "rounds", console=Console(stderr=True)):
        for program in programs.values():
            program.round()
            if number < 2:
                program.taken.clear()
        gc.collect()
        gc.freeze()
    return programs


def show(programs: dict[str, Program]) -> None:
    table = Table("µs for a pod, median of all rounds", *programs, title="What the program does for a pod")
    found = {name: {step: median(all_) for step, all_ in each.taken.items()} for name, each in programs.items()}
    for step in (*_STEPS, _AGAIN):
        if step == _AGAIN:
            table.add_row("all", *(f"{sum(each.get(one, 0) for one in _STEPS):.1f}" for each in found.values()))
            table.add_section()
        table.add_row(step, *(f"{each[step]:.1f}" if step in each else "" for each in found.values()))
    stdout().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pods", type=int, default=1000, help="of 500 workloads, in each round (default 1000)")
    args = parser.parse_args()
    with Path(os.devnull).open("wb") as nowhere:
        show(asyncio.run(measure(args.nodes, args.rounds, args.pods, nowhere)))


if __name__ == "__main__":
    main()
