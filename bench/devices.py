"""Devices of DRA on a real control plane: `python -m bench.devices`.

40 nodes with 8, 4 or 2 GPUs that a DRA driver publishes, and 93 pods in three bursts that ask for 204 of 224 GPUs, in an order
that the seed gives. The scheduler alone takes devices first-fit and scores none. The table shows for how many GPUs pods wait at
the end, and how many of the bound pods are on their first choice.

`--ask`: `templates` (ResourceClaimTemplates), `extended` (an extended resource that a DeviceClass stands for), `partitions`
(halves of GPUs by counters, beside whole ones), `shares` (quarters of the memory of GPUs, beside whole ones).
"""

import argparse
import asyncio
import json
import random
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from functools import partial

from rich.table import Column, Table

from bench.cluster import DECISION, settled
from bench.output import stdout
from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, deployment, job, made
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.installed import Installed, opt_in

DRIVER = "gpu.nvidia.com"
NODES = {8: 20, 4: 12, 2: 8}
PODS = {8: 12, 4: 8, 2: 3, 1: 70}
"""Number of pods by the GPUs that each asks for."""
ASKS = ("templates", "extended", "partitions", "shares")
SIDES = ("stock", "ours")
MEMORY = 80


def slice_of(name: str, gpus: int, ask: str) -> Json:
    """The devices of a node as NVIDIA's driver publishes them."""
    devices: list[Json] = []
    for index in range(gpus):
        attributes = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100"}, "index": {"int": index}}
        attributes["uuid"] = {"string": f"GPU-{name}-{index}"}
        gpu: Json = {
            "name": f"gpu-{index}",
            "attributes": attributes,
            "capacity": {"memory": {"value": f"{MEMORY}Gi"}},
        }
        devices.append(gpu)
        if ask == "shares":
            gpu["allowMultipleAllocations"] = True
        if ask == "partitions":
            gpu["consumesCounters"] = [drawn(index, MEMORY)]
            for half in range(2):
                attributes = {"type": {"string": "mig"}, "uuid": {"string": f"MIG-{name}-{index}-{half}"}}
                part = {"name": f"gpu-{index}-mig-{half}", "attributes": attributes}
                devices.append(part | {"consumesCounters": [drawn(index, MEMORY // 2)]})
    pool = {"name": name, "generation": 1, "resourceSliceCount": 2 if ask == "partitions" else 1}
    return made("ResourceSlice", name, spec={"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices})


def drawn(index: int, memory: int) -> Json:
    return {"counterSet": f"gpu-{index}", "counters": {"memory": {"value": f"{memory}Gi"}}}


def counters_of(name: str, gpus: int) -> Json:
    """The counters of a node's GPUs, in a slice of their own."""
    sets = [{"name": f"gpu-{i}", "counters": {"memory": {"value": f"{MEMORY}Gi"}}} for i in range(gpus)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
    return made(
        "ResourceSlice", f"{name}-c", spec={"driver": DRIVER, "nodeName": name, "pool": pool, "sharedCounters": sets}
    )


def classes(ask: str) -> list[Json]:
    def of(name: str, kind: str, **more: str) -> Json:
        text = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{kind}"'
        return made("DeviceClass", name, spec={"selectors": [{"cel": {"expression": text}}], **more})

    return [of(DRIVER, "gpu", extendedResourceName="nvidia.com/gpu"), of("mig.nvidia.com", "mig")]


def template(gpus: int, ask: str) -> Json:
    exactly: Json = {"deviceClassName": DRIVER, "count": gpus}
    if ask == "partitions" and gpus == 1:
        exactly["deviceClassName"] = "mig.nvidia.com"
    if ask == "shares" and gpus == 1:
        exactly["capacity"] = {"requests": {"memory": f"{MEMORY // 4}Gi"}}
    requests = [{"name": "gpu", "exactly": exactly}]
    return made("ResourceClaimTemplate", f"gpus-{gpus}", spec={"spec": {"devices": {"requests": requests}}})


def workload(number: int, kind: str, pods: int, gpus: int, ask: str, cpu: str) -> Json:
    build = deployment if kind == "Deployment" else job
    resources: Json = {"requests": {"cpu": cpu or str(4 * gpus)}}
    if ask == "extended":
        resources["limits"] = {"nvidia.com/gpu": str(gpus)}
        return build(f"w{number}", pods, gpus, container={"resources": resources}, labels={"gpus": str(gpus)})
    resources["claims"] = [{"name": "gpu"}]
    claims = [{"name": "gpu", "resourceClaimTemplateName": f"gpus-{gpus}"}]
    return build(
        f"w{number}", pods, 0, container={"resources": resources}, resourceClaims=claims, labels={"gpus": str(gpus)}
    )


def bursts(seed: int) -> list[list[tuple[str, int, int]]]:
    """Three bursts of workloads: kind, number of pods, GPUs of each."""
    draw = random.Random(seed)
    found = []
    for gpus, count in PODS.items():
        left = count
        while left:
            pods = min(left, draw.choice((1, 2, 2, 4)))
            found.append((draw.choice(("Deployment", "Job")), pods, gpus))
            left -= pods
    draw.shuffle(found)
    third = -(-len(found) // 3)
    return [found[start : start + third] for start in range(0, len(found), third)]


async def publish(api: Api, ask: str) -> None:
    """The nodes and their devices."""
    sizes = [gpus for gpus, count in NODES.items() for _ in range(count)]
    names = [f"node-{number:02d}" for number in range(len(sizes))]
    await clusters.apply(api, [node(name, 0, cpu="192", memory="2Ti") for name in names], 180)
    slices = [slice_of(name, gpus, ask) for name, gpus in zip(names, sizes, strict=True)]
    if ask == "partitions":
        slices += [counters_of(name, gpus) for name, gpus in zip(names, sizes, strict=True)]
    await asyncio.gather(*[api.create(each) for each in (*slices, *classes(ask))])


async def replay(api: Api, namespace: str, ask: str, cpu: str, seed: int) -> Counter[str]:
    """Create the bursts. Counts the GPUs of pending pods, the bound pods, and those on the first choice."""
    await asyncio.gather(*[api.create(template(gpus, ask), namespace) for gpus in PODS])
    number = created = 0
    for burst in bursts(seed):
        some = []
        for kind, pods, gpus in burst:
            number, created = number + 1, created + pods
            some.append(api.create(workload(number, kind, pods, gpus, ask, cpu), namespace))
        await asyncio.gather(*some)
        await settled(api, namespace, created)
    found: Counter[str] = Counter()
    for pod in await api.pods(namespace):
        record = json.loads(pod["metadata"].get("annotations", {}).get(DECISION, "{}"))
        if on := pod["spec"].get("nodeName"):
            found["bound"] += 1
            found["ranked"] += bool(record.get("nodes"))
            found["first"] += bool(record.get("nodes")) and on == record["nodes"][0][0]
        else:
            found["pending"] += int(pod["metadata"]["labels"]["gpus"])
        if why := record.get("why"):
            found[f"why: {why}"] += 1
    return +found


def run(who: str, ask: str, cpu: str, seed: int) -> Counter[str]:
    """One run on a fresh control plane. `who`: stock or ours."""
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(find()))
        if who == "ours":
            stack.enter_context(Installed(plane))

        async def work() -> Counter[str]:
            async with Api.of(plane.kubeconfig) as api:
                await api.namespace("load")
                if who == "ours":
                    await opt_in(api, "load")
                await publish(api, ask)
                return await replay(api, "load", ask, cpu, seed)

        return asyncio.run(work())


def _some_of(known: Collection[str], said: str) -> list[str]:
    names = said.split(",")
    if wrong := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not known: wanted some of {', '.join(known)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ask", default=[*ASKS], type=partial(_some_of, ASKS), metavar="ASK,…")
    parser.add_argument("--cpu", default="", help="CPU of each pod, such as 100m; 4 for each GPU by default")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--who", default=[*SIDES], type=partial(_some_of, SIDES), metavar="WHO,…", help="stock, ours")
    args = parser.parse_args()
    table = Table(*[Column(name) for name in ("ask", "seed", "who", "GPUs pending", "first choice", "left alone")])
    for ask in args.ask:
        for seed in map(int, args.seeds.split(",")):
            for who in args.who:
                found = run(who, ask, args.cpu, seed)
                share = f"{found['first'] / found['ranked']:.1%} of {found['ranked']}" if found["ranked"] else ""
                why = ", ".join(f"{name[5:]}: {count}" for name, count in found.items() if name.startswith("why"))
                table.add_row(ask, str(seed), who, str(found["pending"]), share, why)
                print(ask, seed, who, dict(found), flush=True)
    stdout().print(table)


if __name__ == "__main__":
    main()
