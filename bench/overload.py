"""What becomes of calls when there is five times too much to do: `python -m bench.overload`.

So many connections as `--connections` says call the mutating hook with a large pod each, at once and again, as an API server
does: after a 503 with Retry-After it asks again a second later, and a call ends after 3 s, the timeout of the hook. Accepted is
an answer of status 200 within that time. Afterwards one connection calls until it is accepted: has the server recovered?
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from pathlib import Path

import orjson
import uvloop
from rich.table import Table

from bench import samples
from bench.load import anybody, request
from bench.output import percentile, stdout
from bench.reviews import serving
from tests.strangers import many_containers
from webhook.tls.issue import write_certificates

_TIMEOUT = 3.0


async def answer_to(stream: tuple[asyncio.StreamReader, asyncio.StreamWriter], sent: bytes) -> bytes:
    """The status of the answer to a request."""
    reader, writer = stream
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    await reader.readexactly(length)
    return head.split()[1]


class Callers:
    """The calls of all connections until `end`."""

    def __init__(self, port: int, body: bytes, end: float) -> None:
        self._port, self._sent, self.end = port, request("/mutate", body), end
        self._trust = anybody()
        self.accepted: list[float] = []
        """Seconds from the last time that it was asked to its answer."""
        self.outcomes: Counter[str] = Counter()

    async def go_on(self) -> None:
        stream = None
        while time.perf_counter() < self.end:
            try:
                async with asyncio.timeout(_TIMEOUT):
                    stream = stream or await asyncio.open_connection("127.0.0.1", self._port, ssl=self._trust)
                    self.outcomes[await self._call(stream)] += 1
            except (OSError, asyncio.IncompleteReadError) as error:
                self.outcomes["3 s went by" if isinstance(error, TimeoutError) else "broken"] += 1
                if stream:
                    stream[1].transport.abort()
                stream = None
        if stream:
            stream[1].transport.abort()

    async def _call(self, stream: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> str:
        for _ in range(3):
            started = time.perf_counter()
            status = await answer_to(stream, self._sent)
            if status == b"200":
                self.accepted.append(time.perf_counter() - started)
                return "accepted"
            self.outcomes["asked again after a 503"] += 1
            await asyncio.sleep(1)
        return "refused"


async def measure(port: int, body: bytes, connections: int, seconds: float) -> tuple[Callers, float]:
    """The calls of all, and the seconds from their end to the end of the next call that is accepted."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # handshakes that the server ends
    callers = Callers(port, body, time.perf_counter() + seconds)
    await asyncio.gather(*(callers.go_on() for _ in range(connections)))
    ended = time.perf_counter()
    alone = Callers(port, body, ended)
    while not alone.accepted:
        alone.end = time.perf_counter() + 0.001
        await alone.go_on()
    return callers, time.perf_counter() - ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--containers", type=int, default=100, help="of each pod (default 100)")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--nodes", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        certificates = [str(path) for path in write_certificates(folder, ["localhost", "127.0.0.1"])[1:3]]
        cluster = folder / "cluster.json"
        cluster.write_bytes(orjson.dumps(samples.cluster(args.nodes)))
        with serving(cluster, certificates, folder) as server:
            body = many_containers(args.containers)
            callers, alone = uvloop.run(measure(server.port, body, args.connections, args.seconds))
    table = Table("", "", title=f"{args.connections} connections, reviews of {len(body):,} bytes, {args.seconds:g} s")
    for outcome, number in callers.outcomes.most_common():
        table.add_row(outcome, f"{number:,}")
    for part in (50, 99) if callers.accepted else ():
        table.add_row(f"accepted, p{part}", f"{percentile(callers.accepted, part / 100):.2f} s")
    table.add_row("afterwards, one is accepted after", f"{alone:.2f} s")
    stdout().print(table)


if __name__ == "__main__":
    main()
