"""What two replicas cost, by how late each hears of the other's choices: `python -m bench.replicas`.

The loads of `bench.cluster` without a control plane: the mutating hook of each replica as the server has it, each review to a
random replica, and a scheduler that takes the first ranked node with room, or else the fullest one. A replica hears of a pod once
it is stored, and of its node once it is bound, each time after half to one and a half times the delay. Pods come every 8 ms on
average. Of 100 nodes at most five can stay whole.
"""

import argparse
import heapq
import random
from base64 import b64decode
from collections.abc import Callable
from itertools import count
from typing import Any

import jsonpatch
import orjson
from rich.console import Console
from rich.table import Table

from bench.cluster import load
from bench.output import stdout
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.served import NOW, Server, review
from webhook.feeds.policy import shipped_policy
from webhook.kube.pod import PROFILE_LABEL
from webhook.kube.record import ranked_nodes
from webhook.nodes.siblings import LABEL
from webhook.policy.model import Policy
from webhook.server.settings import ServeSettings
from webhook.state.objects import REQUIRED
from webhook.state.state import ClusterState

POLICY = Policy.load(shipped_policy().decode())
NAMESPACE, OURS = "load", ServeSettings().namespace
GAP, HOOK, PAUSE = 0.008, 0.003, 5.0
"""Seconds from one pod to the next on average, for one hook, and from one burst to the next."""
Object = dict[str, Any]
progress = Console(stderr=True)


def replica(name: str, names: tuple[str, ...], nodes: list[Object]) -> Server:
    """One that knows the nodes and the replicas of these names."""
    state = ClusterState(sibling=name, namespace=OURS)
    for kind in REQUIRED:
        state.freshness.complete(kind, NOW)
    for each in nodes:
        state.node_seen(each)
    state.namespaces.seen({"metadata": {"name": NAMESPACE, "labels": {PROFILE_LABEL: "default"}}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for each in names:
        metadata = {"name": each, "namespace": OURS, "uid": each, "labels": dict([LABEL])}
        state.pod_seen(
            {"metadata": metadata, "spec": {"containers": [], "nodeName": "elsewhere"}, "status": ready}, NOW
        )
    return Server(state, POLICY)


def pod_of(workload: int, kind: str, gpus: int) -> Object:
    name, requests = f"w{workload}", {"nvidia.com/gpu": str(gpus), "cpu": str(4 * gpus)}
    controller = {"Deployment": "ReplicaSet"}.get(kind, kind)
    made = pod(name, gpus, limits=requests, requests=requests, namespace=NAMESPACE, owned_by=controller, priority=0)
    made["metadata"] |= {"generateName": f"{made['metadata'].pop('name')}-", "annotations": {}}
    made["metadata"]["ownerReferences"][0]["uid"] = name
    return made


class World:
    """Time, the replicas, and the nodes as the scheduler knows them. `late`: the delay in seconds."""

    def __init__(self, names: tuple[str, ...], nodes: int, late: float, seed: int) -> None:
        objects = [node(f"node-{number:03d}", cpu="192", memory="2Ti") for number in range(nodes)]
        self.replicas = [replica(name, names, objects) for name in names]
        self.free = {each["metadata"]["name"]: 8 for each in objects}
        self.bound = self.first = self.pending = 0
        self._late, self._draw, self._number = late, random.Random(seed), count()
        self._now, self._todo = 0.0, list[tuple[float, int, Callable[[], None]]]()

    def burst(self, pods: list[Object]) -> None:
        """Create these pods, and wait until nothing is left to do."""
        at = self._now
        for each in pods:
            at += self._draw.expovariate(1 / GAP)
            self._at(at, lambda each=each: self._created(each))
        while self._todo:
            self._now, _, do = heapq.heappop(self._todo)
            do()
        self._now += PAUSE

    def _at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._todo, (when, next(self._number), do))

    def _heard(self, pod: Object) -> None:
        for each in self.replicas:
            self._at(self._after(), lambda each=each: each.state.pod_seen(pod, NOW))

    def _after(self) -> float:
        return self._now + self._late * self._draw.uniform(0.5, 1.5)

    def _created(self, pod: Object) -> None:
        answer = self._draw.choice(self.replicas).handlers.mutate(review(pod, NAMESPACE))
        patch = orjson.loads(b64decode(Server.answered(*answer)["patch"]))
        self._at(self._now + 2 * HOOK, lambda: self._stored(jsonpatch.apply_patch(pod, patch)))

    def _stored(self, pod: Object) -> None:
        number = next(self._number)
        pod["metadata"] |= {"name": f"p-{number}", "uid": f"u-{number}"}
        self._heard(pod)
        self._at(self._after(), lambda: self._bind(pod))

    def _bind(self, pod: Object) -> None:
        gpus = int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        ranked, fit = ranked_nodes(pod), [name for name in self.free if self.free[name] >= gpus]
        if not fit:
            self.pending += 1
            return
        place = next((name for name in ranked if name in fit), min(fit, key=lambda name: self.free[name]))
        self.free[place] -= gpus
        self.bound, self.first = self.bound + 1, self.first + (place == ranked[0])
        self._heard({**pod, "spec": {**pod["spec"], "nodeName": place}, "status": {"phase": "Running"}})


def run(names: tuple[str, ...], late: float, seed: int) -> World:
    asked, number = load(100, 700, 0.95, 4, seed), count()
    world = World(names, asked.nodes, late, seed)
    for burst in asked.bursts:
        made = [(next(number), *each) for each in burst]
        world.burst([pod_of(workload, kind, gpus) for workload, kind, pods, gpus in made for _ in range(pods)])
    return world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=12, help="how many loads; default %(default)s")
    parser.add_argument("--late", default="1,10,30,100", help="milliseconds, one or several; default %(default)s")
    given = parser.parse_args()
    seeds = range(5, 5 + given.seeds)
    table = Table("replicas", "heard after ms", "whole nodes left", "on the first choice", "pending")
    for late in map(float, given.late.split(",")):
        for names in (("a",), ("a", "b")):
            found = [run(names, late / 1000, seed) for seed in seeds]
            progress.print(f"{len(names)} replicas, {late:g} ms")
            whole = sum(free == 8 for world in found for free in world.free.values()) / len(found)
            first = sum(world.first for world in found) / sum(world.bound for world in found)
            pending = str(sum(world.pending for world in found))
            table.add_row(str(len(names)), f"{late:g}", f"{whole:.2f}", f"{first:.1%}", pending)
    stdout().print(table)


if __name__ == "__main__":
    main()
