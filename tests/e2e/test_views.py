"""What the commands and the metrics count of devices is what the real scheduler allocated, and `try` says it before."""

import asyncio
from collections import Counter

import pytest

from bench import devices as load
from tests.controlplane.api import Api
from tests.controlplane.clusters import applied
from tests.controlplane.nodes import Json, node
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import SERVES_EXTENDED_RESOURCES
from tests.trying import tried
from webhook.cli.cluster.load import load as read_cluster
from webhook.cli.drain import drainable
from webhook.placement.gpu_counts import count
from webhook.placement.settings import Health
from webhook.whatif.answers import KINDS
from webhook.whatif.cluster.report import report
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.offline import load_policy
from webhook.whatif.tried import Outcome

pytestmark = pytest.mark.controlplane
POLICY = load_policy()
ASK = "partitions" if SERVES_EXTENDED_RESOURCES else "templates"
"""Partitions have an alpha gate in older versions: there a pod asks for whole GPUs only."""
NAMES = {"view-a": 2, "view-b": 4}


async def test_numbers_are_what_the_scheduler_allocated(control_plane: ControlPlane, api: Api, namespace: str) -> None:
    slices = [load.slice_of(name, gpus, ASK) for name, gpus in NAMES.items()]
    slices += [load.counters_of(name, gpus) for name, gpus in NAMES.items()] if ASK == "partitions" else []
    jobs = [load.workload(gpus, "Job", pods, gpus, ASK, "100m") for gpus, pods in ((1, 3), (2, 3))]
    jobs += [load.workload(9, "Job", 1, 1, "extended", "100m")] if SERVES_EXTENDED_RESOURCES else []
    nodes = [node(name, 0, cpu="192", memory="2Ti") for name in NAMES]
    async with applied(api, nodes), api.having(*slices, *load.classes(ASK)):
        await asyncio.gather(*[api.create(load.template(gpus, ASK), namespace) for gpus in (1, 2)])
        said = await asyncio.to_thread(_tried, control_plane, jobs, namespace)
        told = sum([each.bound.total() for each in said.tried])
        pods = 0
        for each in jobs:
            await api.create(each, namespace)
            pods += each["spec"]["parallelism"]
            # One after the other: how many are bound depends on which claims the scheduler sees first.
            await api.tried(namespace, pods)
        found = await api.tried(namespace, pods, told)
        assert told == len(_bound(found))
        snapshot = await asyncio.to_thread(read_cluster, control_plane.kubeconfig, None, KINDS)
        await _agree(snapshot, await api.list("ResourceClaim", namespace))


def _bound(pods: list[Json]) -> list[Json]:
    return [each for each in pods if each["spec"].get("nodeName")]


def _tried(control_plane: ControlPlane, jobs: list[Json], namespace: str) -> Outcome:
    return tried(read_cluster(control_plane.kubeconfig, None, KINDS), POLICY, jobs, namespace, asks=False)


async def _agree(snapshot: Snapshot, claims: list[Json]) -> None:
    """A whole GPU that a claim has is 1, a half 0.5."""
    allocated = Counter[str]()
    for claim in claims:
        for result in (claim["status"].get("allocation") or {"devices": {"results": []}})["devices"]["results"]:
            allocated[result["pool"]] += 1 if "mig" not in result["device"] else 0.5  # type: ignore[assignment]
    assert allocated.total() > 0
    reports = report(snapshot, POLICY, list(NAMES))
    assert {each["name"]: each["gpus"][load.DRIVER]["allocated"] for each in reports} == {
        name: allocated[name] for name in NAMES
    }
    for each in reports:
        assert sum(pod["gpus"][load.DRIVER] for pod in each["pods"]) == allocated[each["name"]]
    free = sum(NAMES.values()) - allocated.total()
    assert drainable(snapshot, POLICY)["free"] == {load.DRIVER: free}
    counted = count(snapshot.state, POLICY.gpus, Health(), {}).gpus
    states = {word: amount for (name, _, word), amount in counted.items() if name == load.DRIVER}
    assert states == {"allocated": allocated.total(), "promised": 0, "free": free, "unusable": 0}
