"""What another tenant waits for while one tenant creates costly claims without end: `python -m bench.beside`.

All come over connections of one address, as from an API server. Counted is how many of the costly reviews are answered while one
of the other tenant's waits: unlike times, that does not depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import orjson
import uvloop
from rich.table import Table

from bench import samples
from bench.bodies.claims import DRIVER, MODELS, claim, devices, exactly
from bench.load import anybody, request
from bench.output import percentile, stdout
from bench.overload import answer_to
from bench.reviews import serving
from tests.strangers import many_containers
from webhook.tls.issue import write_certificates

_LOOP = f"{[*range(40)]}.all(a, {' && '.join(['a + 1 > 0'] * 40)} && device.attributes['{DRIVER}'].productName != 'x')"
_NODES = 50


def _costly(number: int) -> bytes:
    """No two are alike."""
    return request("/validate", claim(*[exactly(f"{3 * number + each} > -1 && {_LOOP}") for each in range(3)]))


async def _measured(port: int, connections: int, reviews: int) -> list[list[tuple[float, int]]]:
    """Milliseconds, and costly reviews meanwhile, of each of the other tenant's reviews: alone, and beside them."""
    bodies, trust, answered = [_costly(number) for number in range(4_000)], anybody(), 0

    async def costly(stream: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        nonlocal answered
        while bodies:
            await answer_to(stream, bodies.pop())
            answered += 1

    async def ours() -> list[tuple[float, int]]:
        found = []
        for number in range(reviews):
            started, before = time.perf_counter(), answered
            status = await answer_to(kept, request(("/mutate", "/validate")[number % 2], many_containers(1)))
            assert status == b"200", f"{status!r}: the creation fails"
            found.append(((time.perf_counter() - started) * 1e3, answered - before))
            await asyncio.sleep(0.02)
        return found

    kept, *theirs = [await asyncio.open_connection("127.0.0.1", port, ssl=trust) for _ in range(connections + 1)]
    alone = await ours()
    asking = [asyncio.create_task(costly(stream)) for stream in theirs]
    await asyncio.sleep(1)
    beside = await ours()
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return [alone, beside]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=60)
    parser.add_argument("--reviews", type=int, default=100)
    args = parser.parse_args()
    objects = samples.cluster(_NODES)
    for number in range(_NODES):
        objects["items"] += devices(f"gpu-{number:05d}", number % MODELS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificates = [str(path) for path in write_certificates(folder, ["localhost", "127.0.0.1"])[1:3]]
        cluster = folder / "cluster.json"
        cluster.write_bytes(orjson.dumps(objects))
        with serving(cluster, certificates, folder) as server:
            found = uvloop.run(_measured(server.port, args.connections, args.reviews))
    table = Table("another's reviews", "p50 ms", "p99 ms", "costly ones meanwhile, p50", "p99", "most")
    for title, each in zip(("alone", f"beside {args.connections} costly ones at any time"), found, strict=True):
        times, costly = [ms for ms, _ in each], [float(number) for _, number in each]
        shown = [f"{percentile(times, share):.1f}" for share in (0.5, 0.99)]
        shown += [f"{number:.0f}" for number in (percentile(costly, 0.5), percentile(costly, 0.99), max(costly))]
        table.add_row(title, *shown)
    stdout().print(table)


if __name__ == "__main__":
    main()
