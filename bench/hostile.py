"""Time and memory that hostile request bodies cost: `python -m bench.hostile`.

Each body of `bench.bodies` is decided on in a process of its own, with a cluster of 5,000 nodes. Measured are the CPU time of its
slowest hook, the peak of memory, and the memory left afterwards; memory is above that of the process before. A body may cost at
most 1 s and 300 MiB. Linux only.

More tables show what one tenant can leave for others (`bench.tenant_cases`), without and with it: the CPU time of both reviews of
another tenant's pod, measured in one process and at most three times as long with it; and what the other tenant gets.
"""

import argparse
import ctypes
import gc
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import tenants
from bench.bodies import BODIES
from bench.bodies.claims import MODELS, devices
from bench.forked import in_child
from bench.output import save, stdout
from bench.samples import cluster, handlers_of, state_of
from bench.tenant_cases import COSTS, OUTCOMES
from webhook.state.state import ClusterState

_MAX_SECONDS, _MAX_MEMORY = 1.0, 300.0
"""The most that a body may cost: CPU seconds, MiB at the peak."""


class Cost(NamedTuple):
    """What one body costs."""

    seconds: float
    """CPU seconds of the slowest hook."""
    peak: float
    """MiB at the peak, above the memory before the body."""
    left: float
    """MiB still in use afterwards, above the memory before the body."""
    answers: str
    """`allowed`, `refused` or an HTTP status, of each hook."""


def _status(field: str) -> float:
    """The value of a field of /proc/self/status, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def _measured(state: ClusterState, name: str, nowhere: BinaryIO) -> Cost:
    """The cost of a body in this process, without the time to receive it. `nowhere`: where the log goes."""
    handlers = handlers_of(state, nowhere)
    body, slowest, peak, answers = BODIES[name].make(), 0.0, 0.0, []
    gc.collect()
    _trim()
    before = _status("VmRSS:")
    for hook in BODIES[name].hooks:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak, VmHWM
        started = time.process_time()
        status, answer = getattr(handlers, hook)(body)
        slowest = max(slowest, time.process_time() - started)
        peak = max(peak, _status("VmHWM:") - before)
        said = "allowed" if b'"allowed":true' in answer else "refused"
        answers.append(said if status == 200 else str(status))
        del answer
    gc.collect()
    _trim()
    return Cost(slowest, peak, _status("VmRSS:") - before, ", ".join(answers))


def _trim() -> None:
    """Give memory that the C allocator keeps back to the system, so that it does not count as in use."""
    ctypes.CDLL(None).malloc_trim(0)


def costs(nodes: int, names: list[str], patience: int) -> Iterator[tuple[str, Cost | None]]:
    """The cost of each body; None if it took more than `patience` CPU seconds or all memory."""
    objects = cluster(nodes)
    for number in range(min(nodes, 50)):
        objects["items"] += devices(f"gpu-{number:05d}", number % MODELS)
    state = state_of(objects)
    gc.collect()
    gc.freeze()
    for name in track(names, "bodies", console=Console(stderr=True)):
        with Path(os.devnull).open("wb") as nowhere:
            found = in_child(name, patience, lambda name=name, nowhere=nowhere: _measured(state, name, nowhere))
        yield name, Cost(*found) if found else None


def bodies(nodes: int, names: list[str], patience: int) -> tuple[Table, dict[str, Any], int]:
    """The table of bodies, its numbers, and how many of them cost too much."""
    table = Table("body", "CPU s", "MiB at its peak", "MiB left", "answer", title="Bodies that were made to cost much")
    bad, measured = 0, dict(costs(nodes, names, patience))
    for name, cost in measured.items():
        if cost is None:
            table.add_row(name, f"over {patience}", "", "", "")
            bad += 1
            continue
        bad += cost.seconds > _MAX_SECONDS or cost.peak > _MAX_MEMORY
        table.add_row(name, f"{cost.seconds:.2f}", f"{cost.peak:.0f}", f"{cost.left:.1f}", cost.answers)
    return table, {name: cost and cost._asdict() for name, cost in measured.items()}, bad


def main() -> int:
    """Exit status 1 if a body costs too much, or a tenant takes too much from another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--nodes", type=int, default=5_000, help="of the cluster; tenants also get one of four times as many"
    )
    parser.add_argument(
        "--patience", type=int, default=60, metavar="SECONDS", help="CPU time after which a row is ended"
    )
    parser.add_argument("--reviews", type=int, default=200, help="that are measured for each row of the tenants")
    parser.add_argument("--scale", type=float, default=1.0, help="the part of what tenants leave, for a short run")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for hostile.json")
    parser.add_argument("words", nargs="*", help="only rows with one of these words in their names")
    options = parser.parse_args()

    def chosen(rows: Iterable[str]) -> list[str]:
        return [name for name in rows if not options.words or any(word in name for word in options.words)]

    out, document, bad = stdout(), dict[str, Any](), 0
    effort = tenants.Effort(options.reviews, options.scale, options.patience)
    tables = [
        (chosen(BODIES), lambda names: bodies(options.nodes, names, options.patience)),
        (chosen(COSTS), lambda names: tenants.reviews(options.nodes, names, effort)),
        (chosen(COSTS), lambda names: tenants.reviews(4 * options.nodes, names, effort)),
        (chosen(OUTCOMES), lambda names: tenants.outcomes(names, effort)),
    ]
    for names, measure in tables:
        if names:
            table, numbers, missed = measure(names)
            out.print(table)
            out.print(f"{len(names)} rows, {missed} past the bound")
            document |= numbers
            bad += missed
    save(options.out, "hostile.json", orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
