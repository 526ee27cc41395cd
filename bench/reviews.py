"""What one review costs: `python -m bench.reviews`.

Two tables: CPU time for a review at one rate for all servers, more than an API server is likely to ask; and what a core takes
at most.

The real server (one process, one core, TLS, HTTP/1.1 kept alive) beside two yardsticks in the same run: the ratios are
what counts, since machines differ and are shared. `echo` gives the body back, `no decision` parses it and answers with a
fixed patch (`bench.least`). Both have the same certificate, connections and reviews. The reviews are of
one-GPU vLLM pods, about 5 kB each, as the API server sends them: each has a uid, a time and the volume of a token of its
own; the cluster has 1,000 nodes, too large to fill up, so that every review chooses a node and reserves it.

`make bench` measures the compiled server, as the image has it; `as Python` is the same without. `mutate` is for replicas of
500 workloads, `mutate, new` for pods of which no two are alike. The validating hook gets pods as the mutating one has left
them; `refused` are the same with a theft in the place of a harmless variable.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import orjson
from rich.console import Console
from rich.table import Table

from bench.least import command, started
from bench.load import Outcome, request, run
from bench.output import stdout
from bench.samples import admitted, cluster, pod, refused, review, stored
from webhook.server import handlers
from webhook.tls.files import write_certificates

console = Console(stderr=True)
_UNLIKE = 6144
_NEW = "mutate, new"
_PLAIN = "mutate, as Python"
_ROOT = Path(__file__).resolve().parent.parent
_COMPILED = not (handlers.__file__ or "").endswith(".py")
_FEW = 31
_ROUNDS = 20
_CORE = 0


Found = dict[str, list[Outcome]]
"""By handler, one for each round."""


def measure(nodes: int, seconds: float, connections: int, rate: float, count: int = 1000) -> tuple[Found, Found]:
    """CPU and latency per request, of the echo and of both hooks: at `rate`, and with all that the server takes."""
    known = [review(i, pod(i)) for i in range(count)]
    console.print(f"{nodes} nodes, reviews of {len(known[0])} bytes, {connections} connections, {seconds:g} s each")
    if os.cpu_count() != 1:
        os.sched_setaffinity(0, set(range(1, os.cpu_count() or 1)))
    with tempfile.TemporaryDirectory() as folder:
        cert, key = write_certificates(Path(folder), ["localhost", "127.0.0.1"])[1:3]
        state = Path(folder, "cluster.json")
        state.write_bytes(orjson.dumps(cluster(nodes)))
        complete = stored(state, known)
        loads = {
            "mutate": ("/mutate", known),
            # more than are kept at a time
            _NEW: ("/mutate", [review(i, pod(i, _UNLIKE)) for i in range(_UNLIKE)]),
            "validate": ("/validate", [review(i, admitted(obj)) for i, obj in enumerate(complete)]),
            "validate, refused": ("/validate", [review(i, refused(obj)) for i, obj in enumerate(complete)]),
            _PLAIN: ("/mutate", known),
        }
        serve = [sys.executable, "-m", "webhook", "serve", "--cluster", str(state), "--host", "127.0.0.1"]
        serve += ["--port", "0", "--ops-port", "0", "--tls-cert", str(cert), "--tls-key", str(key)]
        with ExitStack() as stack:
            echoes = stack.enter_context(started(command(cert, key), _CORE))
            turns = {"echo": (echoes, "/echo", known), "no decision": (echoes, "/nothing", known)}
            for name, (path, bodies) in loads.items():
                if name == _PLAIN:
                    if not _COMPILED:
                        continue
                    serve = ["env", f"PYTHONPATH={_ROOT}", *serve]
                turns[name] = (stack.enter_context(started(serve, _CORE)), path, bodies)
            requests = {name: [request(path, body) for body in bodies] for name, (_, path, bodies) in turns.items()}
            paced: Found = {name: [] for name in turns}
            full: Found = {name: [] for name in turns}
            for number in range(_ROUNDS):  # by turns: a machine that is slow for a while is so for all of them
                for found, pace in ((paced, rate), (full, None)):
                    for name, ((port, pid), _, _) in turns.items():
                        asked = (
                            requests[name] if name != _NEW else _rotated(requests[name], number * 2 + (pace is None))
                        )
                        found[name].append(run(port, pid, asked, seconds / _ROUNDS, connections, pace))
    return paced, full


def _rotated(requests: list[bytes], turn: int) -> list[bytes]:
    """For each turn those that were not asked lately, so that none of them is remembered. A connection asks for a few."""
    start = turn * _FEW % len(requests)
    return requests[start:] + requests[:start]


def ratios(found: Found, name: str, yardstick: str) -> list[float]:
    """CPU per request in terms of what the yardstick took in the same round, in rising order."""
    pairs = zip(found[name], found[yardstick], strict=True)
    return sorted(one.cpu_each / other.cpu_each for one, other in pairs)


def show(paced: Found, full: Found, rate: float) -> None:
    columns = ("handler", "CPU µs", "× echo", "half of all rounds", "× no decision", "failed")
    table = Table(*columns, title=f"CPU of the server process for one request, at {rate:g} requests/s")
    for name, rounds in paced.items():
        all_ratios = ratios(paced, name, "echo")
        table.add_row(
            name,
            f"{sum(rounds[1:], start=rounds[0]).cpu_each * 1e6:.0f}",
            f"{median(all_ratios):.2f}",
            f"{all_ratios[len(all_ratios) // 4]:.2f} - {all_ratios[-1 - len(all_ratios) // 4]:.2f}",
            f"{median(ratios(paced, name, 'no decision')):.2f}",
            str(sum(outcome.failed for outcome in (*rounds, *full[name]))),
        )
    stdout().print(table)
    table = Table("handler", "req/s", "p50 ms", "p99 ms", "CPU µs", "× echo", title="All that one core takes")
    for name, rounds in full.items():
        outcome = sum(rounds[1:], start=rounds[0])
        table.add_row(
            name,
            f"{outcome.rate:,.0f}",
            f"{outcome.percentile(0.5) * 1e3:.2f}",
            f"{outcome.percentile(0.99) * 1e3:.2f}",
            f"{outcome.cpu_each * 1e6:.0f}",
            f"{median(ratios(full, name, 'echo')):.2f}",
        )
    stdout().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=8.0, help="of load per handler, in short turns (default 8)")
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rate", type=float, default=1000.0, help="requests/s at which CPU is compared (default 1000)")
    args = parser.parse_args()
    show(*measure(args.nodes, args.seconds, args.connections, args.rate), args.rate)


if __name__ == "__main__":
    main()
