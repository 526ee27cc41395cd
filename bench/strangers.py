"""How much longer a pod's creation takes while a stranger attacks the webhook's port: `python -m bench.strangers`.

Pods are created one at a time through kube-apiserver, by turns without an attack, with an attack of `tests.strangers` on our
port, and with the same attack on another port. A process on the other port does the TLS handshake of each connection, reads
nothing, and closes it after a second. The attack on the other port shows how much the attacker itself slows the machine down,
because it shares the cores with everything else. Ratios are to the time without an attack, as medians of all rounds.

With `--address 127.0.0.1` the attack comes from the API server's address. With `--client-ca` the API server has a client
certificate, and the attacker has none.
"""

import argparse
import asyncio
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import pytest
import trustme
from rich.console import Console
from rich.table import Table

from bench.output import percentile, stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.controlplane.settings import Options
from tests.e2e.test_client_certificate import shown_by_the_api_server
from tests.installed import Installed, opt_in
from tests.strangers import ATTACKS, attacked
from webhook.tls.issue import make_ca, make_leaf
from webhook.tls.serve import LiveContext

NAMESPACE = "strangers"
console = Console(stderr=True)


async def created(api: Api, count: int) -> tuple[list[float], int]:
    """Create pods. Returns the milliseconds of each, and how many failed or got no decision."""
    times, failed = [], 0
    for _ in range(count):
        made = pod("p")
        made["metadata"] = {"generateName": "p-"}
        started = time.perf_counter()
        try:
            stored = await api.create(made, NAMESPACE, dryRun="All")
            failed += "gpu-admission.io/decision" not in stored["metadata"].get("annotations", {})
        except ApiError as error:
            console.print(str(error)[:200])
            failed += 1
        times.append((time.perf_counter() - started) * 1e3)
    return times, failed


@contextmanager
def closing() -> Iterator[int]:
    """The port of another process that only does the TLS handshake of its connections, and then closes them."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        process = multiprocessing.get_context("spawn").Process(target=_close_all, args=(server,))
        process.start()
        try:
            yield server.getsockname()[1]
        finally:
            process.kill()
            process.join()


def _close_all(server: socket.socket) -> None:
    live, now = LiveContext(), datetime.now(UTC)
    live.swap(make_leaf(make_ca(now), ["localhost"], now), now)

    async def serve() -> None:
        await (await asyncio.start_server(_close, sock=server, ssl=live.context())).serve_forever()

    asyncio.run(serve())


async def _close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(1)
    writer.transport.abort()


async def measure(plane: ControlPlane, installed: Installed, other: int, arguments: argparse.Namespace) -> Table:
    columns = (
        "attack",
        "p50 ms",
        "with",
        "other port",
        "p99 ms",
        "with",
        "other port",
        "p50 x",
        "p99 x",
        "failed",
        "MiB",
    )
    table = Table(*columns, title=arguments.address)
    async with Api.of(plane.kubeconfig) as api:
        await clusters.apply(api, clusters.cluster("100x8"), 120)
        await api.namespace(NAMESPACE)
        await opt_in(api, NAMESPACE)
        await created(api, 50)
        for attack in arguments.attacks or ATTACKS:
            figures = await attack_by_turns(api, installed.ports[0], other, attack, arguments)
            memory = installed.metrics()["process_resident_memory_bytes"] / (1 << 20)
            table.add_row(attack, *figures, f"{memory:.0f}")
            console.print(attack, *figures)
    return table


async def attack_by_turns(api: Api, port: int, other: int, attack: str, arguments: argparse.Namespace) -> list[str]:
    """The cells of one attack in the table: times, ratios, failed creations. `port`: ours; `other`: the other port."""
    rounds, failed = [], 0
    for _ in range(arguments.rounds):
        times = [(await created(api, arguments.count))[0]]
        for attacked_port in (port, other):
            async with attacked(attacked_port, attack, arguments.address, arguments.niceness):
                attacked_times, missed = await created(api, arguments.count)
            times.append(attacked_times)
            failed += missed
        rounds.append([[percentile(each, share) for each in times] for share in (0.5, 0.99)])
    figures, ratios = [], []
    for share in (0, 1):
        figures += [f"{median(each[share][which] for each in rounds):.1f}" for which in range(3)]
        with_us, elsewhere = (median(each[share][which] / each[share][0] for each in rounds) for which in (1, 2))
        ratios.append(f"{with_us:.1f} / {elsewhere:.1f}")
    return [*figures, *ratios, str(failed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="creations in a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--address", default="127.0.7.2", help="the address that the stranger connects from")
    parser.add_argument("--niceness", type=int, default=0, help="of the stranger; 19: as if it had cores of its own")
    parser.add_argument("--client-ca", action="store_true", help="the API server shows a client certificate")
    parser.add_argument("attacks", nargs="*", choices=[*ATTACKS, []], help="all of them, if none is named")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as environment:
        options = Options()
        if arguments.client_ca:
            authority = trustme.CA()
            authority.cert_pem.write_to_path(Path(name) / "ca.crt")
            shown = shown_by_the_api_server(Path(name), authority)
            options = Options(apiserver=(f"--admission-control-config-file={shown}",))
            environment.setenv("GPU_ADMISSION_CLIENT_CA", str(Path(name) / "ca.crt"))
        with ControlPlane(find(), options) as plane, Installed(plane) as installed, closing() as other:
            stdout().print(asyncio.run(measure(plane, installed, other, arguments)))


if __name__ == "__main__":
    main()
