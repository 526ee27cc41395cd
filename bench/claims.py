"""What devices of DRA cost: `python -m bench.claims`.

The first table has the CPU time of both hooks for the same pods, whose GPUs come by a device plugin, and by a claim: replicas
of 500 workloads on 1,000 nodes of 8 GPUs, as in `bench.loop`. `--memory` fills a state with nodes of 8 devices, all of which
are allocated, and prints the memory of slices and claims.
"""

import argparse
import gc
import os
import resource
from collections.abc import Iterator
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, BinaryIO

import orjson
from rich.table import Table

from bench import recorded
from bench.choose import _PAGE, _resident
from bench.devices import DRIVER, classes, slice_of
from bench.loop import Program
from bench.output import stdout
from bench.samples import cluster, gpu_node, handlers_of, state_of
from webhook.state.objects import ListKind
from webhook.state.state import ClusterState

Object = dict[str, Any]
_KIB = 1024


def claiming(body: bytes) -> bytes:
    """The same review; the GPUs of the pod come by a claim."""
    review = orjson.loads(body)
    spec = review["request"]["object"]["spec"]
    resources = spec["containers"][0]["resources"]
    gpus = int(resources["limits"].pop("nvidia.com/gpu"))
    resources.get("requests", {}).pop("nvidia.com/gpu", None)
    resources["claims"] = [{"name": "gpus"}]
    spec["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": f"gpus-{gpus}"}]
    return orjson.dumps(review)


class ByClaim(Program):
    """`bench.loop.Program` on nodes whose GPUs come by DRA."""

    def __init__(self, nodes: int, variable: str, count: int, nowhere: BinaryIO) -> None:
        super().__init__(1, variable, count, nowhere)
        objects = cluster(nodes, 0)
        objects["items"] += [slice_of(f"gpu-{number:05d}", 8, "templates") for number in range(nodes)]
        objects["items"] += classes("templates") + [_template(gpus) for gpus in (1, 2, 4, 8)]
        for each in objects["items"]:
            each.get("status", {}).get("allocatable", {}).pop("nvidia.com/gpu", None)
        self.state = state_of(objects)
        self.state.replace("resourceclaims", (), 0.0)
        self._hooks = handlers_of(self.state, nowhere)
        self._bodies, self._stored = ([claiming(body) for body in bodies] for bodies in (self._bodies, self._stored))


class ByPlugin(Program):
    def __init__(self, nodes: int, variable: str, count: int, nowhere: BinaryIO) -> None:
        super().__init__(1, variable, count, nowhere)
        self.state = state_of(cluster(nodes, 8))
        self._hooks = handlers_of(self.state, nowhere)


def _template(gpus: int) -> Object:
    requests = [{"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": gpus}}]
    metadata = {"name": f"gpus-{gpus}", "namespace": recorded.NAMESPACE}
    spec = {"spec": {"devices": {"requests": requests}}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


def reviews(nodes: int, rounds: int, count: int) -> Table:
    table = Table("µs for a pod", "device plugin", "claim", "×", title="Both hooks, median of all rounds")
    with Path(os.devnull).open("wb") as nowhere:
        programs = [kind(nodes, recorded.HARMLESS, count, nowhere) for kind in (ByPlugin, ByClaim)]
        for number in range(rounds + 2):
            for each in programs:
                each.round()
                if number < 2:
                    each.taken.clear()
            gc.collect()
            gc.freeze()
    both = [{step: median(all_) for step, all_ in each.taken.items()} for each in programs]
    for step in both[0]:
        table.add_row(step, *(f"{each[step]:.0f}" for each in both), f"{both[1][step] / both[0][step]:.2f}")
    sums = [each["mutate"] + each["validate"] for each in both]
    table.add_row("mutate and validate", *(f"{each:.0f}" for each in sums), f"{sums[1] / sums[0]:.2f}")
    return table


def memory(nodes: int) -> Table:
    state = ClusterState(max_age=inf)
    kinds: tuple[tuple[ListKind, int, Iterator[Object]], ...] = (
        ("nodes", nodes, (gpu_node(number, 0) for number in range(nodes))),
        ("resourceslices", nodes, (slice_of(f"gpu-{number:05d}", 8, "templates") for number in range(nodes))),
        ("resourceclaims", 8 * nodes, (_allocated(number) for number in range(8 * nodes))),
    )
    table = Table(
        "of", "objects", "MiB", "bytes for each", title=f"Memory of {nodes:,} nodes of 8 devices, all allocated"
    )
    for kind, total, objects in kinds:
        gc.collect()
        before = _resident()
        for _ in range(-(-total // _PAGE)):
            page = [obj for obj, _ in zip(objects, range(_PAGE), strict=False)]
            for obj in orjson.loads(orjson.dumps(page)):
                state.seen(kind, obj, 0.0)
        state.freshness.complete(kind, 0.0)
        del page
        gc.collect()
        used = _resident() - before
        table.add_row(kind, f"{total:,}", f"{used / _KIB / _KIB:.0f}", f"{used / total:,.0f}")
    table.add_row("the process at its peak", "", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB:.0f}", "")
    return table


def _allocated(number: int) -> Object:
    """A claim that has one device, as the scheduler writes it."""
    name, index = f"gpu-{number // 8:05d}", number % 8
    at = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    results = [{"request": "gpus", "driver": DRIVER, "pool": name, "device": f"gpu-{index}"}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [at]}}
    users = [{"resource": "pods", "name": f"p-{number}", "uid": f"{number:08x}-0000-0000-0000-000000000000"}]
    requests = [{"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": 1}}]
    return {
        "metadata": {"name": f"p-{number}-gpus", "namespace": f"team-{number % 50}", "uid": f"c-{number}"},
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": allocation, "reservedFor": users},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--pods", type=int, default=1000, help="pods of 500 workloads in each round")
    parser.add_argument("--memory", type=int, metavar="NODES", help="nodes, such as 65000: memory instead of time")
    given = parser.parse_args()
    stdout().print(memory(given.memory) if given.memory else reviews(given.nodes, given.rounds, given.pods))


if __name__ == "__main__":
    main()
