"""What bodies cost that were made to cost much: `python -m bench.hostile`.

Each of `bench.bodies` in a process of its own, beside a cluster of 5,000 nodes: CPU time of its slowest hook, memory at its peak
and memory left after, above what the process had before. Wanted: at most 1 s and 300 MiB. Linux only.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.bodies import BODIES
from bench.output import stdout
from bench.samples import cluster
from webhook.cli.offline import load_policy, load_state
from webhook.cluster.state import ClusterState
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers
from webhook.server.process import Recorder
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

_MAX_SECONDS, _MAX_MEMORY = 1.0, 300.0
_MEBI = 1 << 20


class Cost(NamedTuple):
    """CPU seconds, and MiB beside those that the process had before. `answers`: status and size of each."""

    seconds: float
    peak: float
    left: float
    answers: str


class _Policies:
    current = load_policy()


def _status(field: str) -> float:
    """A line of /proc/self/status, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def _measured(state: ClusterState, name: str, nowhere: BinaryIO) -> Cost:
    """Of this body, in this process. To read the body is the server's, and not in it."""
    recorder = Recorder(Metrics(), logs.configure(nowhere))
    handlers = Handlers(_Policies(), state, Placer(state), recorder, lambda: 0.0)
    body, slowest, peak, answers = BODIES[name].make(), 0.0, 0.0, []
    gc.collect()
    _trim()
    before = _status("VmRSS:")
    for hook in BODIES[name].hooks:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
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
    """Give back to the system what the allocator holds: it is not what we keep."""
    ctypes.CDLL(None).malloc_trim(0)


def costs(nodes: int, names: list[str], patience: int) -> Iterator[tuple[str, Cost | None]]:
    """None for one that took longer than `patience` seconds, or more memory than there was."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cluster.json")
        file.write_bytes(orjson.dumps(cluster(nodes)))
        state = load_state(file)
    gc.collect()
    gc.freeze()
    for name in track(names, "bodies", console=Console(stderr=True)):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, (patience, patience))
            try:
                with Path(os.devnull).open("wb") as nowhere:
                    os.write(write, orjson.dumps([*_measured(state, name, nowhere)]))
            except BaseException as error:
                print(name, repr(error)[:300], file=sys.stderr)
            finally:
                os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with os.fdopen(read, "rb") as pipe:
            text = pipe.read()
        yield name, Cost(*orjson.loads(text)) if text else None


def main() -> int:
    """Exit status 1 where a body cost too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--patience", type=int, default=60, metavar="SECONDS")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="hostile.json goes there")
    parser.add_argument("words", nargs="*", help="only bodies with one of these in their names")
    options = parser.parse_args()
    names = [name for name in BODIES if not options.words or any(word in name for word in options.words)]
    out = stdout()
    table = Table("body", "CPU s", "MiB at its peak", "MiB left", "answer", title="Bodies that were made to cost much")
    bad = 0
    measured = dict(costs(options.nodes, names, options.patience))
    for name, cost in measured.items():
        if cost is None:
            table.add_row(name, f"over {options.patience}", "", "", "")
            bad += 1
            continue
        bad += cost.seconds > _MAX_SECONDS or cost.peak > _MAX_MEMORY
        table.add_row(name, f"{cost.seconds:.2f}", f"{cost.peak:.0f}", f"{cost.left:.1f}", cost.answers)
    out.print(table)
    out.print(f"{len(names)} bodies, {bad} cost more than {_MAX_SECONDS:.0f} s or {_MAX_MEMORY:.0f} MiB")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        plain = {name: cost and cost._asdict() for name, cost in measured.items()}
        (options.out / "hostile.json").write_bytes(orjson.dumps(plain, option=orjson.OPT_INDENT_2))
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
