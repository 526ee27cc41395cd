"""How much longer a pod's creation takes while a stranger keeps the port busy: `python -m bench.strangers`.

Pods are created one at a time through kube-apiserver, by turns without and with each attack of `tests.strangers`, in one run:
what else the machine does meets both. The stranger and the server share its cores, so figures from few cores are the worst.
`--address 127.0.0.1` is the API server's own; `--client-ca` gives the API server a certificate, and the stranger none.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import pytest
import trustme
from rich.console import Console
from rich.table import Table

from bench.creates import percentile
from bench.output import stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.controlplane.settings import Options
from tests.e2e.test_client_certificate import shown_by_the_api_server
from tests.installed import Installed, opt_in
from tests.strangers import ATTACKS, attacked

NAMESPACE = "strangers"
console = Console(stderr=True)


async def created(api: Api, count: int) -> tuple[list[float], int]:
    """Milliseconds of each creation, and how many failed or were left as they are."""
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


async def measure(plane: ControlPlane, installed: Installed, arguments: argparse.Namespace) -> Table:
    table = Table("attack", "p50 ms", "with", "p99 ms", "with", "ratio", "failed", "MiB", title=arguments.address)
    async with Api.of(plane.kubeconfig) as api:
        await clusters.apply(api, clusters.cluster("100x8"), 120)
        await api.namespace(NAMESPACE)
        await opt_in(api, NAMESPACE)
        await created(api, 50)
        for attack in arguments.attacks or ATTACKS:
            quiet, busy, failed = [], [], 0
            for _ in range(arguments.rounds):
                quiet += (await created(api, arguments.count))[0]
                async with attacked(installed.ports[0], attack, arguments.address):
                    times, missed = await created(api, arguments.count)
                busy += times
                failed += missed
            memory = installed.metrics()["process_resident_memory_bytes"] / (1 << 20)
            p50, p99 = ([percentile(times, share) for times in (quiet, busy)] for share in (0.5, 0.99))
            figures = [f"{value:.1f}" for value in (*p50, *p99, p99[1] / p99[0])]
            table.add_row(attack, *figures, str(failed), f"{memory:.0f}")
            console.print(attack, *figures, failed)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="creations in a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--address", default="127.0.0.2", help="where the stranger calls from")
    parser.add_argument("--client-ca", action="store_true", help="the API server shows a certificate")
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
        with ControlPlane(find(), options) as plane, Installed(plane) as installed:
            stdout().print(asyncio.run(measure(plane, installed, arguments)))


if __name__ == "__main__":
    main()
