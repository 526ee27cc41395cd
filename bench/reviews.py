"""CPU time of one review: `python -m bench.reviews`.

The real server (one process, one core, TLS, HTTP/1.1 kept alive) is compared with two handlers that decide nothing, in the same
run, each with as many reviews as one core takes: `echo` returns the body, `fixed patch` parses it and always answers with the
same patch (`bench.least`). The result is the CPU time of the server for one review, as a multiple of the time of `fixed patch`
in the same round, because machines differ and are shared.

The bodies were recorded from real API servers (`bench.recorded`), and the server's watch sees each pod as soon as it is admitted
(`bench.watched`). The cluster has 1,000 nodes of 8 GPUs. In the rows for a Deployment, each round has a new one whose pods come
at once and wait for the scheduler.
"""

import argparse
import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from bench import recorded, samples, watched
from bench.least import command, started
from bench.load import Outcome, anybody, cpu_seconds, request, run
from bench.output import percentile, stdout
from webhook.tls.issue import write_certificates

console = Console(stderr=True)
YARDSTICK = "fixed patch"
_CORE = 0
"""The core of the servers. The client uses the others."""
_GPUS = 8
Bodies = Callable[[int], list[bytes]]
"""Gives the reviews of a round. The argument is the number of the round."""


@dataclass
class Server:
    """A running server."""

    port: int
    pid: int
    watch: Path | None = None
    """The file with the CPU time of the server's watch; None if it has no watch."""

    def cpu(self) -> float:
        """CPU seconds so far, without those of the watch."""
        return cpu_seconds(self.pid) - (watched.spent(self.watch) if self.watch else 0.0)

    def clear(self) -> None:
        """Delete all pods that the server has seen."""
        if self.watch is None:
            return
        address = ("127.0.0.1", self.port)
        with socket.create_connection(address) as plain, anybody().wrap_socket(plain) as connection:
            connection.sendall(request("/clear", b"{}"))
            assert b" 200 " in connection.recv(4096)


@dataclass
class Row:
    """A row of the table."""

    title: str
    server: Server
    path: str
    bodies: Bodies
    most: float | None = None
    """The most that a review may cost, as a multiple of the yardstick."""
    grows: float | None = None
    """The most that a review of the last tenth may cost, as a multiple of one of the first tenth."""


@contextmanager
def serving(cluster: Path, certificates: list[str], folder: Path) -> Iterator[Server]:
    """Run the real server for the cluster of a file, with a watch. `certificates`: the files of the certificate and its key."""
    file = folder / f"watch-{len(list(folder.iterdir()))}"
    file.write_bytes(bytes(watched.SIZE))
    arguments = ["-m", "bench.watched", str(file), "4000", "serve", "--from", str(cluster), "--host", "127.0.0.1"]
    arguments += ["--port", "0", "--ops-port", "0", "--tls-cert", certificates[0], "--tls-key", certificates[1]]
    with started([sys.executable, *arguments], _CORE) as (port, pid):
        yield Server(port, pid, file)


def rows(stack: ExitStack, folder: Path, nodes: int, count: int, replicas: list[int]) -> list[Row]:
    """Start all servers. `count`: reviews in a round; `replicas`: of the Deployments whose pods come at once."""
    certificates = [str(path) for path in write_certificates(folder, ["localhost", "127.0.0.1"])[1:3]]
    cluster, full = folder / "cluster.json", folder / "full.json"
    cluster.write_text(json.dumps(samples.cluster(nodes, _GPUS)))
    full.write_text(json.dumps(samples.full(nodes, _GPUS)))
    least = Server(*stack.enter_context(started(command(*map(Path, certificates)), _CORE)))
    ours = stack.enter_context(serving(cluster, certificates, folder))
    filled = stack.enter_context(serving(full, certificates, folder))
    other = stack.enter_context(serving(cluster, certificates, folder))  # its workloads would fill the caches of `ours`
    known = recorded.of_workloads(count, 500)
    admitted, refused = (
        recorded.decided(
            cluster,
            [recorded.with_variable(body, variable) for body in known],
            [recorded.with_variable(body, variable) for body in recorded.of_workloads(count, 500, "validate")],
        )
        for variable in (recorded.HARMLESS, recorded.THEFT)
    )

    def burst(creator: str, replicas: int) -> Bodies:
        return lambda number: recorded.burst(creator, replicas, 1000 + number + replicas)

    def always(bodies: list[bytes]) -> Bodies:
        return lambda number: bodies

    listed = [
        Row("echo", least, "/echo", always(known)),
        Row(YARDSTICK, least, "/nothing", always(known)),
        Row("mutate: 500 workloads", ours, "/mutate", always(known), 2.0),
        Row("mutate: a Job of 256", ours, "/mutate", burst("job", 256), 2.0),
        Row("mutate: the cluster is full", filled, "/mutate", always(known), 2.0),
        Row("mutate: no two alike", other, "/mutate", lambda number: recorded.unlike(count, number * count), 5.0),
        Row("validate: admitted", ours, "/validate", always(admitted), 2.0),
        Row("validate: refused", ours, "/validate", always(refused), 2.0),
    ]
    listed += [
        Row(f"mutate: a Deployment of {number:,}", ours, "/mutate", burst("replicaset", number), 2.0, 1.5)
        for number in replicas
    ]
    return listed


def measure(
    nodes: int, rounds: int, count: int, replicas: list[int], connections: int
) -> list[tuple[Row, list[Outcome]]]:
    """Measure all rows by turns, so that a slow phase of the machine meets all of them. The first round is not counted."""
    if (cores := os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, set(range(1, cores)))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        measured: list[tuple[Row, list[Outcome]]] = [
            (row, []) for row in rows(stack, Path(folder), nodes, count, replicas)
        ]
        for number in range(rounds + 1):
            for row, outcomes in measured:
                requests = [request(row.path, body) for body in row.bodies(number)]
                row.server.clear()
                outcome = run(row.server.port, row.server.cpu, requests, connections)
                if number:
                    outcomes.append(outcome)
            console.print(f"round {number} of {rounds}")
    return measured


def show(measured: list[tuple[Row, list[Outcome]]]) -> bool:
    """Print the table. Returns whether no request failed and no row costs more than it may."""
    least = next(outcomes for row, outcomes in measured if row.title == YARDSTICK)
    good = True
    columns = ("CPU µs", f"× {YARDSTICK}", "at most", "first tenth", "last tenth", "grows", "p99 ms", "failed")
    table = Table(title=f"One review, medians of {len(least)} rounds")
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    for row, outcomes in measured:
        ratio = median([each.cpu_each / other.cpu_each for each, other in zip(outcomes, least, strict=True)])
        first, last = (median([each.tenth(at) for each in outcomes]) * 1e6 for at in (0, -1))
        grows, failed = last / max(first, 1.0), sum(each.failed for each in outcomes)
        tenths = (f"{first:.0f}", f"{last:.0f}", f"{grows:.2f} ≤ {row.grows}") if row.grows else ("", "", "")
        good &= not failed and ratio <= (row.most or ratio) and grows <= (row.grows or grows)
        table.add_row(
            row.title,
            f"{median([each.cpu_each for each in outcomes]) * 1e6:.0f}",
            f"{ratio:.2f}",
            f"{row.most or ''}",
            *tenths,
            f"{median([percentile(each.latencies, 0.99) for each in outcomes]) * 1e3:.1f}",
            str(failed),
        )
    stdout().print(table)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of 8 GPUs each (default 1000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000, help="reviews in a round, except in bursts (default 1000)")
    parser.add_argument("--replicas", default="1000,4000", help="replicas of a Deployment, numbers with commas")
    parser.add_argument("--connections", type=int, default=50)
    args = parser.parse_args()
    replicas = [int(number) for number in args.replicas.split(",")]
    good = show(measure(args.nodes, args.rounds, args.count, replicas, args.connections))
    console.print("all is as it must be" if good else "not all is as it must be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
