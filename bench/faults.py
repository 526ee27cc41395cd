"""What pods notice of faults: `make faults`, or `python -m bench.faults [--only WORD] [--times N]`.

The whole installation on a real control plane: the shipped manifests, two replicas behind a balancer that follows readiness.
Eight clients create pods all the while, one after another, through the API server. For each fault: creations, how many failed
because of the webhook, how many got no decision, and how long they took. Exit status 1 if a promise of docs/promises.md does not
hold. What a creation takes is no promise here: the machine is shared by everything.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import aiohttp
from rich.console import Console
from rich.table import Table

from bench.output import percentile, stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.e2e.scene import POLICY, SECRET, TRUSTED, Scene, sooner
from tests.installed import DECISION, NAMESPACE, SHIPPED, Installed, opt_in

OURS, OTHERS = "ours", "others"
CLIENTS = 8
progress = Console(stderr=True)


@dataclass
class Load:
    """Creations of GPU pods, as dry runs, in a namespace."""

    api: Api
    namespace: str = OURS
    tried: int = 0
    failed: list[str] = field(default_factory=list)
    """Messages of those that the webhook made fail. The API server's own absence is not counted."""
    undecided: int = 0
    times: list[float] = field(default_factory=list)
    """Milliseconds."""

    async def create(self, number: int) -> None:
        self.tried += 1
        started = time.perf_counter()
        try:
            stored = await self.api.create(pod(f"p-{number}"), self.namespace, dryRun="All")
        except ApiError as error:
            if "gpu-admission.io" in error.message:
                self.failed.append(error.message)
        except (aiohttp.ClientError, OSError):
            await asyncio.sleep(0.1)  # the API server itself is away
        else:
            self.undecided += DECISION not in stored["metadata"].get("annotations", {})
            self.times.append((time.perf_counter() - started) * 1e3)

    @asynccontextmanager
    async def running(self, clients: int = CLIENTS, pause: float = 0.01) -> AsyncIterator["Load"]:
        """Clients create, each one after another, until the block ends."""
        ended = False

        async def client(number: int) -> None:
            while not ended:
                await self.create(number)
                await asyncio.sleep(pause)

        clients_running = [asyncio.create_task(client(number)) for number in range(clients)]
        try:
            await asyncio.sleep(1)
            yield self
            await asyncio.sleep(1)
        finally:
            ended = True
            await asyncio.gather(*clients_running)


class Fault(NamedTuple):
    """A fault, and how many creations may fail of it. `allowed` None: all that come while nobody answers."""

    name: str
    promise: str
    happen: Callable[[Scene], Awaitable[None]]
    allowed: int | None = 0


async def nothing(scene: Scene) -> None:
    await asyncio.sleep(5)


async def replicas_replaced_in_turn(scene: Scene) -> None:
    for number in (0, 1):
        await asyncio.to_thread(scene.webhook.members[number].stop, patience=60)
        scene.webhook.members[number].start()
        await asyncio.to_thread(scene.webhook.await_ready, number)


async def replica_killed(scene: Scene) -> None:
    await asyncio.to_thread(scene.webhook.members[0].stop, patience=0)
    await asyncio.sleep(2)
    scene.webhook.members[0].start()
    await asyncio.to_thread(scene.webhook.await_ready, 0)


async def all_replicas_gone(scene: Scene) -> None:
    for member in scene.webhook.members:
        await asyncio.to_thread(member.stop, patience=0)
    async with Load(scene.api, OTHERS).running(2) as others:
        await asyncio.sleep(5)
    if others.failed:
        raise AssertionError(f"a namespace that has not opted in: {others.failed[0]}")
    for number, member in enumerate(scene.webhook.members):
        member.start()
        await asyncio.to_thread(scene.webhook.await_ready, number)


async def api_server_restarted(scene: Scene) -> None:
    await asyncio.to_thread(scene.plane.stop, "kube-apiserver", 0)
    await asyncio.sleep(5)
    await asyncio.to_thread(scene.plane.start, "kube-apiserver")
    await asyncio.sleep(10)


async def certificate_replaced(scene: Scene) -> None:
    await scene.api.patch("Secret", SECRET, {"data": None}, NAMESPACE)
    await asyncio.sleep(1)
    await wait_until(scene.rested, 120, "the new CA alone")


async def policies_good_and_broken(scene: Scene) -> None:
    """Two good ones by turns, and a broken one after each, which the hook refuses."""
    for number in range(10):
        text = SHIPPED if number % 2 else "profiles: {default: {}}\n"
        await scene.api.patch("ConfigMap", POLICY, {"data": {"policy.yaml": text}}, NAMESPACE)
        try:
            broken = {"data": {"policy.yaml": f"profiles: {{default: {{no{number}: true}}}}\n"}}
            await scene.api.patch("ConfigMap", POLICY, broken, NAMESPACE)
        except ApiError:
            continue
        raise AssertionError("a broken policy was stored")


FAULTS = (
    Fault("nothing", "", nothing),
    Fault("replicas replaced in turn", "P5", replicas_replaced_in_turn),
    Fault("a replica killed", "P6", replica_killed, CLIENTS),
    Fault("all replicas gone, and back", "P7", all_replicas_gone, None),
    Fault("API server restarted", "P8", api_server_restarted),
    Fault("certificate and CA replaced", "P10, P11", certificate_replaced),
    Fault("ten policies, ten broken ones", "P12, P13", policies_good_and_broken),
)


async def measured(fault: Fault, scene: Scene, times: int) -> tuple[Load, str]:
    """The load, and what does not hold ("": all does)."""
    wrong = ""
    async with Load(scene.api).running() as load:
        try:
            for _ in range(times):
                await fault.happen(scene)
        except AssertionError as error:
            wrong = str(error)
    if fault.allowed is not None and len(load.failed) > fault.allowed * times:
        wrong = f"{len(load.failed)} creations failed, at most {fault.allowed * times} may: {load.failed[0][:200]}"
    if fault.allowed == 0 and load.undecided:
        wrong = wrong or f"{load.undecided} pods were created without a decision"
    after = Load(scene.api)
    for number in range(10):
        await after.create(number)
    if after.failed or after.undecided:
        wrong = wrong or f"it does not recover: {[*after.failed, 'no decision'][0][:200]}"
    return load, wrong


async def all_measured(wanted: list[Fault], times: int) -> int:
    table = Table("fault", "promise", "creations", "failed", "without a decision", "p50 ms", "p99 ms", "holds")
    status = 0
    with ControlPlane(find("1.37")) as plane, Installed(plane, replicas=2, before=sooner()) as webhook:
        async with Api.of(plane.kubeconfig) as api:
            await clusters.apply(api, clusters.cluster("two-node"))
            for name in (OURS, OTHERS):
                await api.namespace(name)
            await opt_in(api, OURS)
            scene = Scene(plane, webhook, api)
            for fault in wanted:
                progress.print(f"{fault.name} …")
                await wait_until(scene.rested, 120, "rest")
                await asyncio.sleep(TRUSTED)
                load, wrong = await measured(fault, scene, times)
                status |= bool(wrong)
                took = [f"{percentile(load.times, share):.0f}" for share in (0.5, 0.99)]
                counts = [str(load.tried), str(len(load.failed)), str(load.undecided)]
                table.add_row(fault.name, fault.promise, *counts, *took, wrong or "yes")
    stdout().print(table)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="only faults with this word in their name")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="how often each happens; default %(default)s")
    given = parser.parse_args()
    only = given.only
    wanted = [fault for fault in FAULTS if only in fault.name]
    if not wanted:
        parser.error(f"saw {only!r}, wanted a word of: {', '.join(fault.name for fault in FAULTS)}")
    if given.times < 1:
        parser.error(f"saw --times {given.times}, wanted 1 or more")
    return asyncio.run(all_measured(wanted, given.times))


if __name__ == "__main__":
    sys.exit(main())
