"""Workloads whose pods work together, and of which it is known how many there are: they go to one domain that holds all."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job
from tests.e2e.behaviour.case import ZONE, Case, Json, counts, runs, together
from tests.e2e.behaviour.made import taken

CLIQUE = "nvidia.com/gpu.clique"


def in_zones(**zones: int) -> list[Json]:
    """So many nodes of 8 GPUs in each zone: a1, a2, b1, …"""
    return [node(f"{zone}{n}", zone=f"zone-{zone}") for zone, count in zones.items() for n in range(1, count + 1)]


def indexed(name: str, parallelism: int, gpus: int, **more: Any) -> Json:
    """A Job of so many pods at once, and as many in all as `completions` says."""
    found = job(name, parallelism, gpus)
    found["spec"] |= {"completionMode": "Indexed", **more}
    return found


def of_jobset(name: str, pods: int = 1) -> Json:
    """One of the two Jobs of a JobSet, of so many pods of eight GPUs."""
    labels = {"jobset.sigs.k8s.io/jobset-uid": "set", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}
    found = job(name, pods, 8, labels=labels)
    found["metadata"]["labels"] |= labels | {"jobset.sigs.k8s.io/replicatedjob-replicas": "2"}
    return found


def group(name: str, size: int = 2, subgroup: str = "") -> Json:
    """Two pods of a LeaderWorkerSet's group, of eight GPUs each, of one StatefulSet. `subgroup`: the name of the two of the
    group that belong closest together."""
    labels = {"leaderworkerset.sigs.k8s.io/name": "set", "leaderworkerset.sigs.k8s.io/group-key": "group"}
    annotations = {"leaderworkerset.sigs.k8s.io/size": str(size)}
    if subgroup:
        labels["leaderworkerset.sigs.k8s.io/subgroup-key"] = subgroup
        annotations["leaderworkerset.sigs.k8s.io/subgroup-size"] = "2"
    found = deployment(name, 2, 8, "StatefulSet", labels=labels, annotations=annotations)
    found["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return found


ZONES, EQUAL = in_zones(a=1, b=2), in_zones(a=2, b=2)
EIGHTS = job("train", 2, 8)
"""Two pods of eight GPUs."""
CASES = [
    Case(
        "a Job of two pods of eight goes to the smallest zone that holds both",
        in_zones(a=4, b=2),
        [EIGHTS],
        [counts(b1=1, b2=1)],
    ),
    Case(
        "a Job of three pods of eight, of which one zone has a node that is partly taken",
        in_zones(a=3, b=3),
        [job("train", 3, 8)],
        [counts(b1=1, b2=1, b3=1)],
        there=[taken("a1", 1)],
    ),
    Case(
        "a Job goes to the GPU model that has room for all of its pods",
        [
            *[node(f"h{n}", 8, "NVIDIA-H100-80GB-HBM3") for n in (1, 2, 3)],
            *[node(f"l{n}", 8, "NVIDIA-L4") for n in (1, 2, 3, 4)],
        ],
        [job("train", 4, 8)],
        [counts(l1=1, l2=1, l3=1, l4=1)],
    ),
    Case(
        "a Job with fewer completions than it may run at once",
        in_zones(a=2, b=3),
        [indexed("train", 5, 8, completions=2)],
        [counts(a1=1, a2=1)],
    ),
    Case("a Job that no zone holds runs all the same", EQUAL, [job("train", 3, 8)], [runs(count=3)]),
    Case(
        "a Job in the clique that holds all",
        [node("a", labels={CLIQUE: "x.1"}), *[node(name, labels={CLIQUE: "x.2"}) for name in "bc"]],
        [EIGHTS],
        [counts(b=1, c=1)],
    ),
    Case(
        "two Jobs, each in a zone of its own",
        EQUAL,
        [job("one", 2, 8), job("two", 2, 8)],
        [together(ZONE, "one"), together(ZONE, "two")],
    ),
    Case(
        "the Jobs of a JobSet go to the zone that holds all of them",
        ZONES,
        [of_jobset("w-0"), of_jobset("w-1")],
        [counts(b1=1, b2=1)],
    ),
    Case(
        "a JobSet that no zone holds has each of its Jobs in one",
        in_zones(a=3, b=3),
        [of_jobset("w-0", 2), of_jobset("w-1", 2)],
        [together(ZONE, "w-0"), together(ZONE, "w-1"), runs(count=4)],
    ),
    Case(
        "a LeaderWorkerSet's group that no zone holds has each of its subgroups in one",
        in_zones(a=3, b=3),
        [group("x", 4, "x")],
        [together(ZONE, "x"), together(ZONE, "y"), runs(count=4)],
        later=[group("y", 4, "y")],  # of pods that come together, the first of each may begin in one zone
    ),
    Case(
        "the pods of a LeaderWorkerSet's group go to the zone that holds all of them",
        ZONES,
        [group("w")],
        [counts(b1=1, b2=1)],
    ),
]
