"""CPU time of both hooks for one pod, without a server: `python -m bench.loop`.

The pods are replicas of 500 workloads, made from recorded reviews. They go through both hooks in one loop, by turns pods that
are admitted and pods that are refused because they set NVIDIA_VISIBLE_DEVICES. An admitted pod is bound and seen by the watch,
which ends its reservation. A refused pod never exists, and its reservation expires.

The second table is for the replicas of one Deployment that come in a burst: each is seen by the watch, but not yet bound, before
the next comes. Its first tenth and the last tenth of another are sent by turns.
"""

import argparse
import gc
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time_ns
from typing import Any, BinaryIO

import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import recorded
from bench.output import stdout
from bench.samples import cluster, handlers_of, state_of
from webhook.kube.record import first_node

_MUTATE, _VALIDATE, _SEEN = _STEPS = "mutate", "validate", "seen in the watch"
_AGAIN = "validate once more"
Object = dict[str, Any]
console = Console(stderr=True)


class Program:
    """Both hooks and `count` pods that have the environment variable `variable`."""

    def __init__(self, nodes: int, variable: str, count: int, nowhere: BinaryIO) -> None:
        self.state = state_of(cluster(nodes, 128))
        self._hooks = handlers_of(self.state, nowhere)
        self._bodies, self._stored = (
            [recorded.with_variable(body, variable) for body in recorded.of_workloads(count, 500, hook)]
            for hook in ("mutate", "validate")
        )
        self.taken: dict[str, list[float]] = {}
        """Microseconds for a pod, by step, one value for each round."""

    def round(self) -> None:
        """Send all pods through both hooks, show those that are admitted to the state, and remove all again."""
        answers = self._timed(_MUTATE, self._hooks.mutate, self._bodies)
        triples = zip(self._bodies, self._stored, answers, strict=True)
        bodies = [recorded.with_decision(first, second, answer) for first, second, (_, answer) in triples]
        answers = self._timed(_VALIDATE, self._hooks.validate, bodies)
        admitted = zip(bodies, answers, strict=True)
        bound = [self._bound(body) for body, (_, answer) in admitted if b'"allowed":true' in answer]
        self._timed(_SEEN, partial(self.state.pod_seen, now=0.0), bound)
        for obj in bound:
            self.state.pod_gone(obj)
        self.state.expire(self.state.ledger.unseen_ttl)  # ends the reservations of refused pods
        assert not self.state.ledger.counts.reserved, "every reservation has ended"
        self._timed(_AGAIN, self._hooks.validate, bodies)

    @staticmethod
    def _bound(body: bytes) -> Object:
        """The pod of a review, running on the first ranked node."""
        obj = orjson.loads(body)["request"]["object"]
        return obj | {"spec": obj["spec"] | {"nodeName": first_node(obj)}, "status": {"phase": "Running"}}

    def _timed(self, step: str, do: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        if not items:
            return []
        started = process_time_ns()
        results = [do(item) for item in items]
        self.taken.setdefault(step, []).append((process_time_ns() - started) / len(items) / 1e3)
        return results


def burst(nodes: int, replicas: int, nowhere: BinaryIO) -> tuple[float, float, float]:
    """Median microseconds of the mutating hook for a replica: of the burst, of its first and of its last tenth. These two are of
    two bursts that are sent by turns, so that other load on the machine meets both."""
    bodies = list(recorded.burst("replicaset", replicas, 1))
    tenth = replicas // 10
    old, new = (_admitted(nodes, bodies, nowhere) for _ in range(2))
    before = [next(old) for _ in range(replicas - tenth)]
    gc.collect()
    gc.freeze()
    first, last = zip(*[(next(new), next(old)) for _ in range(tenth)], strict=True)
    return median([*before, *last]), median(first), median(last)


def _admitted(nodes: int, bodies: list[bytes], nowhere: BinaryIO) -> Iterator[float]:
    """Admit one after the other, and show it to the state. Microseconds of each."""
    state = state_of(cluster(nodes, 8))
    hooks = handlers_of(state, nowhere)
    for number, body in enumerate(bodies):
        started = process_time_ns()
        _, answer = hooks.mutate(body)
        taken = (process_time_ns() - started) / 1e3
        pod = recorded.mutated(body, answer)
        pod["metadata"] |= {"uid": f"{number:032x}", "name": f"seen-{number}"}
        state.pod_seen(pod, 0.0)
        yield taken


def measure(nodes: int, rounds: int, count: int, nowhere: BinaryIO) -> dict[str, Program]:
    """Measure admitted and refused pods in `rounds` rounds, after two rounds that are not counted."""
    kinds = {"admitted": recorded.HARMLESS, "refused": recorded.THEFT}
    programs = {name: Program(nodes, variable, count, nowhere) for name, variable in kinds.items()}
    for number in track(range(rounds + 2), "rounds", console=console):
        for each in programs.values():
            each.round()
            if number < 2:
                each.taken.clear()
        gc.collect()
        gc.freeze()
    return programs


def show(programs: dict[str, Program]) -> None:
    table = Table("µs for a pod, median of all rounds", *programs, title="What the program does for a pod")
    medians = {name: {step: median(all_) for step, all_ in each.taken.items()} for name, each in programs.items()}
    for step in (*_STEPS, _AGAIN):
        if step == _AGAIN:
            table.add_row("all", *(f"{sum(each.get(one, 0) for one in _STEPS):.1f}" for each in medians.values()))
            table.add_section()
        table.add_row(step, *(f"{each[step]:.1f}" if step in each else "" for each in medians.values()))
    stdout().print(table)


def show_bursts(nodes: int, replicas: list[int], rounds: int, nowhere: BinaryIO) -> None:
    columns = ("a Deployment of", "µs for a replica", "first tenth", "last tenth", "grows")
    table = Table(*columns, title="A burst: the mutating hook, medians")
    for number in replicas:
        bursts = [burst(nodes, number, nowhere) for _ in track(range(rounds), f"{number:,} replicas", console=console)]
        whole, first, last = (median(each) for each in zip(*bursts, strict=True))
        table.add_row(f"{number:,}", f"{whole:.0f}", f"{first:.0f}", f"{last:.0f}", f"× {last / first:.2f}")
    stdout().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--pods", type=int, default=1000, help="pods of 500 workloads in each round (default 1000)")
    parser.add_argument("--replicas", default="1000,4000", help="replicas of a Deployment, numbers with commas")
    parser.add_argument("--bursts", type=int, default=3, help="bursts for each number of replicas (default 3)")
    args = parser.parse_args()
    with Path(os.devnull).open("wb") as nowhere:
        show(measure(args.nodes, args.rounds, args.pods, nowhere))
        show_bursts(args.nodes, [int(each) for each in args.replicas.split(",")], args.bursts, nowhere)


if __name__ == "__main__":
    main()
