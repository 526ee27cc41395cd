"""How much longer a binding takes with the guard on the scheduler's path: `python -m bench.bindings`.

Pods are bound through kube-apiserver by kube-scheduler's name, and by an account that is a scheduler by a ClusterRoleBinding. By
turns, they are in a namespace that has opted in, where `gpu-admission-schedulers` is evaluated, and in two that have not: the
difference between these two is the noise of the measurement. The table has medians over the rounds; ratios are within a round.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.output import stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.kinds import path
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.installed import Installed, opt_in

_SIDES = ("plain", "again", "guarded")
_BY = ("system:kube-scheduler", "system:serviceaccount:plain:scheduler")
_NODES = 20
"""No node gets more pods than it takes."""


async def _prepared(api: Api) -> None:
    await clusters.apply(api, clusters.cluster(f"{_NODES}x8"), 120)
    for side in _SIDES:
        await api.namespace(side)
    await opt_in(api, "guarded")
    await api.create(made("ServiceAccount", "scheduler"), "plain")
    rule = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "binds"}
    subjects = [{"kind": "ServiceAccount", "name": "scheduler", "namespace": "plain"}]
    await api.create(made("ClusterRole", "binds", rules=[rule]))
    await api.create(made("ClusterRoleBinding", "binds", roleRef=reference, subjects=subjects))


async def _guarded(plane: ControlPlane, api: Api) -> None:
    """Whoever is no scheduler is refused: the guard is in force."""
    await api.create(made("ServiceAccount", "owner"), "guarded")
    given = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subjects = [{"kind": "ServiceAccount", "name": "owner", "namespace": "guarded"}]
    await api.create(made("RoleBinding", "owner", roleRef=given, subjects=subjects), "guarded")
    await api.create(_waiting("first"), "guarded")
    async with Api.of(plane.kubeconfig_for("guarded", "owner")) as owner:

        async def refused() -> bool:
            return "gpu-admission-schedulers" in await refusal(_bound(owner, "guarded", "first", 0, dryRun="All"))

        await wait_until(refused, 60, "the guard")


def _waiting(name: str) -> dict[str, Any]:
    return pod(name, 0, schedulerName="nobody")


async def _bound(api: Api, namespace: str, name: str, number: int, **query: str) -> None:
    target = {"kind": "Node", "name": f"gpu-{number % _NODES:02d}"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await api.request("POST", path("Pod", namespace, name, "binding"), body, **query)


async def _round(api: Api, schedulers: dict[str, Api], count: int) -> dict[tuple[str, str], float]:
    """The median in milliseconds, by who binds and where. The pods are then deleted."""
    times: dict[tuple[str, str], list[float]] = {(by, side): [] for by in _BY for side in _SIDES}
    for number in range(count):
        for turn, (by, side) in enumerate([*times][number % 6 :] + [*times][: number % 6]):
            name = f"p{number}-{turn}"
            await api.create(_waiting(name), side)
            await asyncio.sleep(0.01)
            started = time.perf_counter()
            await _bound(schedulers[by], side, name, number)
            times[by, side].append((time.perf_counter() - started) * 1e3)
    for side in _SIDES:
        await api.delete_all("Pod", side, gracePeriodSeconds="0")
    return {key: statistics.median(found) for key, found in times.items()}


async def _measured(plane: ControlPlane, rounds: int, count: int) -> list[dict[tuple[str, str], float]]:
    async with (
        Api.of(plane.kubeconfig) as api,
        Api.of(plane.kubeconfig) as first,
    ):
        await _prepared(api)
        await _guarded(plane, api)
        first._session.headers["Impersonate-User"] = _BY[0]
        async with Api.of(plane.kubeconfig_for("plain", "scheduler")) as second:
            schedulers = dict(zip(_BY, (first, second), strict=True))
            await _round(api, schedulers, 5)  # warms up
            return [await _round(api, schedulers, count) for _ in range(rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=40, help="bindings of each kind in a round (default 40)")
    args = parser.parse_args()
    Console(stderr=True).print("starting a control plane and the webhook")
    with ControlPlane(find()) as plane, Installed(plane):
        found = asyncio.run(_measured(plane, args.rounds, args.count))
    title = f"p50 ms of a binding, medians of {args.rounds} rounds"
    table = Table("who binds", *_SIDES, "again / plain", "guarded / plain", title=title)
    for by in _BY:
        ratios = [statistics.median([each[by, side] / each[by, "plain"] for each in found]) for side in _SIDES[1:]]
        times = [statistics.median([each[by, side] for each in found]) for side in _SIDES]
        table.add_row(by, *[f"{number:.2f}" for number in times], *[f"× {ratio:.2f}" for ratio in ratios])
    stdout().print(table)


if __name__ == "__main__":
    main()
