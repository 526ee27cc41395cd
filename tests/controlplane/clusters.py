"""Simulated clusters by name, and how they come to a control plane and go from it."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.controlplane.api import Api, pause, wait_until
from tests.controlplane.nodes import GPU_TAINT, NOT_READY, Json, node

IMAGE = "registry.example/llm:20g"  # the large image that one node of `two-node` has
SPOT_TAINT = "cloud.google.com/gke-spot=true:NoSchedule"
POOL = "node-pool"  # label: which pool a node of `pools` is of
SET_FOR_US = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable")
NAMES = ("two-node", "pools", "N×G (N nodes with G GPUs each; also NxG)")


def cluster(name: str, **same: Any) -> list[Json]:
    """The nodes of a ready-made cluster: "two-node", "pools", or N×G such as "8x8".

    `same`: arguments of `node` for every node of two-node and N×G, such as taints=[GPU_TAINT].
    """
    if name == "two-node":
        return [node("two-a", **same), node("two-b", **({"images": {IMAGE: 20_000_000_000}} | same))]
    if name == "pools" and not same:
        return _pools()
    if size := re.fullmatch(r"(\d+)[x×](\d+)", name):
        nodes, gpus = map(int, size.groups())
        digits = len(str(max(nodes - 1, 0)))
        return [
            node(f"gpu-{number:0{digits}}", gpus, **({"zone": f"zone-{'abc'[number % 3]}"} | same))
            for number in range(nodes)
        ]
    raise ValueError(f"cluster {name!r} is not known: wanted one of {', '.join(NAMES)}")


def _pools() -> list[Json]:
    """What a platform team has: pools of different kinds, and nodes that must not be chosen."""

    def pool(of: str, name: str, gpus: int, product: str, *, taints: Iterable[str] = (), **rest: Any) -> Json:
        labels = {POOL: of} | rest.pop("labels", {})
        return node(name, gpus, product, labels=labels, taints=[GPU_TAINT, *taints], **rest)

    a100, h100, l4 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
    spot = {"cloud.google.com/gke-spot": "true"}
    failed = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}
    training = ["workload=training:NoSchedule"]
    return [
        pool("inference", "inference-a", 8, l4, zone="zone-a", cpu="96", memory="384Gi"),
        pool("inference", "inference-b", 8, l4, zone="zone-b", cpu="96", memory="384Gi"),
        pool("inference", "inference-cordoned", 8, l4, zone="zone-a", cpu="96", memory="384Gi", cordoned=True),
        pool("training", "training-a", 8, h100, taints=training, zone="zone-a", cpu="208", memory="1872Gi"),
        pool("training", "training-b", 8, h100, taints=training, zone="zone-b", cpu="208", memory="1872Gi"),
        pool("training", "training-upgrade-failed", 8, h100, taints=training, labels=failed, cpu="208"),
        pool("spot", "spot-a", 8, a100, taints=[SPOT_TAINT], labels=spot, zone="zone-a"),
        pool("spot", "spot-b", 4, a100, taints=[SPOT_TAINT], labels=spot, zone="zone-c"),
        pool("mig", "mig-a", 4, a100, mig={"1g.10gb": 14, "2g.20gb": 2, "3g.40gb": 4}, zone="zone-a", cpu="64"),
        pool("shared", "shared-a", 4, "Tesla-T4", replicas=4, zone="zone-b", cpu="64", memory="240Gi"),
        pool("shared", "shared-renamed", 2, "Tesla-T4", replicas=4, renamed=True, zone="zone-b", cpu="32"),
        node("cpu-a", 0, labels={POOL: "general"}, zone="zone-a", memory="512Gi"),
    ]


async def apply(api: Api, nodes: Iterable[Json], within: float = 120) -> list[str]:
    """Creates the nodes, and waits until they are as they are meant to be: Ready (or not), and with their taints.

    Returns the names.
    """
    wanted = {each["metadata"]["name"]: each for each in nodes}
    await asyncio.gather(*(_create(api, each) for each in wanted.values()))

    async def settled() -> bool:
        found = {each["metadata"]["name"]: each for each in await api.list("Node")}
        late = [name for name, each in wanted.items() if not _as_meant(found[name], each)]
        assert not late, f"{len(late)} of {len(wanted)} not yet, such as {late[0]}: {found[late[0]]['spec']}"
        return True

    await wait_until(settled, within, f"the {len(wanted)} nodes as they are meant to be", pause(len(wanted)))
    return list(wanted)


def apply_to(kubeconfig: Path, name: str) -> list[str]:
    """The same for whoever is not asynchronous: brings a ready-made cluster to a control plane."""

    async def bring() -> list[str]:
        async with Api.of(kubeconfig) as api:
            return await apply(api, cluster(name))

    return asyncio.run(bring())


async def remove(api: Api, names: Iterable[str]) -> None:
    """Removes nodes, and waits until they are gone. One that is not there is fine."""
    left = set(names)
    await asyncio.gather(*(api.delete("Node", name, missing_ok=True) for name in left))

    async def gone() -> bool:
        still = left & {each["metadata"]["name"] for each in await api.list("Node")}
        assert not still, f"still there: {sorted(still)}"
        return True

    await wait_until(gone, 120, "the nodes gone", pause(len(left)))


@asynccontextmanager
async def applied(api: Api, nodes: Iterable[Json]) -> AsyncIterator[list[str]]:
    """With these nodes. Their names."""
    names = await apply(api, nodes)
    try:
        yield names
    finally:
        await remove(api, names)


async def set_ready(api: Api, name: str, ready: bool) -> None:
    """Makes a node Ready or not, as a kubelet that goes away and comes back would, and waits for its taints."""
    change = {"metadata": {"annotations": {NOT_READY: None if ready else "true"}}}
    await api.patch("Node", name, change)

    async def done() -> bool:
        found = await api.get("Node", name)
        return _is_ready(found) == ready and ("node.kubernetes.io/not-ready:NoSchedule" in _taints(found)) != ready

    await wait_until(done, 120, f"node {name} {'Ready' if ready else 'not Ready'}")


async def _create(api: Api, wanted: Json) -> None:
    """Registers a node with its status, as a kubelet does; taints that follow from that come from the controllers."""
    taints = [taint for taint in wanted["spec"].get("taints", ()) if taint["key"] not in SET_FOR_US]
    await api.create({**wanted, "spec": {**wanted["spec"], "taints": taints}})


def _as_meant(found: Json, wanted: Json) -> bool:
    return (
        _is_ready(found) == _is_ready(wanted)
        and _taints(found) - {"node.kubernetes.io/not-ready:NoExecute"} == _taints(wanted)
        and found["status"]["allocatable"].keys() == wanted["status"]["allocatable"].keys()
    )


def _is_ready(found: Json) -> bool:
    conditions = found.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _taints(found: Json) -> set[str]:
    return {f"{each['key']}:{each['effect']}" for each in found["spec"].get("taints", ())}
