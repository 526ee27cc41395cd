"""What each cache saves of a decision: `python -m bench.caches`.

Replicas of two workloads, and pods of 500, go through a hook without a server. Before each review one of the caches is emptied,
by turns, so that all have the same load beside them. Printed is the median CPU time of a review after that ÷ that with all.
"""

import argparse
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from time import process_time_ns
from typing import Any

from rich.table import Table

from bench import recorded
from bench.output import stdout
from bench.recorded import Silent
from bench.samples import cluster, state_of
from webhook import text
from webhook.kube.quantity import parse_quantity
from webhook.kube.stores import Answers
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers
from webhook.server.process import Recorder
from webhook.state.state import ClusterState
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

Empty = Callable[[], object]
_SKIPPED = 100
"""Reviews at the beginning that do not count."""


def caches(state: ClusterState, placer: Placer) -> dict[str, Empty]:
    """How each cache is emptied."""
    rankers: dict[Any, Any] = vars(placer)["_rankers"]

    def emptied(name: str) -> None:
        for ranker in rankers.values():
            vars(ranker)[name].clear()

    def views() -> None:
        for ranker in rankers.values():
            vars(ranker)["_view"].cache.clear()

    def gpus() -> None:
        for ranker in rankers.values():
            vars(ranker)["_gpus"].kind.__self__.clear()

    return {
        "": lambda: None,
        "scored nodes": rankers.clear,
        "states of nodes": state.nodes.columns.cache.clear,
        "what scores derive from a view": views,
        "why no node could take a pod": partial(emptied, "_unschedulable"),
        "values of labels by row": vars(state.nodes.labels)["_columns"].clear,
        "rows by node name": lambda: vars(state.nodes).update(_unordered=True),
        "answers about all nodes": lambda: setattr(state, "answers", Answers()),
        "quantities": parse_quantity.cache_clear,
        "name patterns": vars(text)["_compiled"].cache_clear,
        "kinds of GPU": gpus,
    }


def ratios(bodies: list[bytes], ask: Callable[[bytes], object], by_name: dict[str, Empty]) -> Iterator[float]:
    """For each cache, the time without it ÷ the time with all."""
    taken: dict[str, list[int]] = {name: [] for name in by_name}
    for number, (body, name) in enumerate(zip(bodies, cycle(by_name), strict=False)):
        with suppress(AttributeError):  # no ranker yet
            by_name[name]()
        started = process_time_ns()
        ask(body)
        if number >= _SKIPPED:
            taken[name].append(process_time_ns() - started)
    all_of_them = median(taken[""])
    yield from (median(times) / all_of_them for times in taken.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1213)
    parser.add_argument("--reviews", type=int, default=2000)
    given = parser.parse_args()
    columns: dict[str, list[float]] = {}
    names: list[str] = []
    gc.disable()
    with Path(os.devnull).open("wb") as nowhere:
        for label, hook, bodies in (
            ("a Deployment", "mutate", recorded.burst("replicaset", given.reviews, 1)),
            ("a Job", "mutate", recorded.burst("job", given.reviews, 2)),
            ("500 workloads", "validate", recorded.of_workloads(given.reviews, 500, "validate")),
        ):
            state = state_of(cluster(given.nodes, 8))
            placer = Placer(state)
            hooks = Handlers(Silent(), state, placer, Recorder(Metrics(), logs.configure(nowhere)), lambda: 0.0)
            by_name = caches(state, placer)
            columns[f"{hook}: {label}"] = list(ratios(bodies, getattr(hooks, hook), by_name))
            names = list(by_name)
    table = Table("without", *columns, title="Time of a decision without a cache ÷ with all")
    for name, *row in zip(names, *columns.values(), strict=True):
        if name:
            table.add_row(name, *[f"{value:.2f}" for value in row])
    stdout().print(table)


if __name__ == "__main__":
    main()
