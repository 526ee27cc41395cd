"""Pods with volumes that are on one node, or in one zone."""

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, pod
from tests.e2e.behaviour.case import ZONE, Case, Json, apart, as_chosen, on, runs, waits
from tests.e2e.behaviour.made import LATE, claim, goes_to, goes_to_b, taken, using, volume

A, B = node("a"), node("b")
ZONES = [node("a"), node("b", zone="zone-b")]
FULLER = [taken("a", 7)]
"""Packing prefers `a` for one pod."""


def stateful(name: str, replicas: int, gpus: int = 1) -> Json:
    """A StatefulSet whose pods have a volume each, bound late."""
    found = deployment(name, replicas, gpus, "StatefulSet")
    claimed = {"metadata": {"name": "data"}, "spec": claim("data", late=True)["spec"]}
    found["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel", "volumeClaimTemplates": [claimed]}
    return found


CASES = [
    goes_to_b(
        "a pod goes to the node of its volume, though another is fuller",
        volumes=using("data"),
        there=[volume("disk", "@b"), claim("data", "disk")],
    ),
    goes_to_b(
        "a pod goes to the zone of its volume",
        ZONES,
        volumes=using("data"),
        there=[volume("disk", "zone-b", ZONE), claim("data", "disk")],
    ),
    Case(
        "a pod waits while the node of its volume is full, as without us",
        [A, B],
        [pod("one", 8, volumes=using("data"))],
        [waits("one")],
        there=[*FULLER, volume("disk", "@a"), claim("data", "disk")],
        without=[waits("one")],
    ),
    goes_to_b(
        "a volume that is bound late goes where there is one",
        volumes=using("data"),
        there=[LATE, volume("disk", "@b", late=True), claim("data", late=True)],
    ),
    Case(
        "replicas with volumes of their own go where these are",
        [A, B],
        [stateful("db", 2)],
        [runs(count=2), apart()],
        there=[LATE, volume("disk-a", "@a", late=True), volume("disk-b", "@b", late=True)],
    ),
    goes_to_b(
        "a volume of the pod's own that is bound late goes where there is one",
        volumes=[{"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": claim("own", late=True)["spec"]}}}],
        there=[LATE, volume("disk", "@b", late=True)],
    ),
    Case(
        "a pod whose claim comes later runs then",
        [A, B],
        [pod("one", volumes=using("data"))],
        [on("b")],
        there=[*FULLER, volume("disk", "@b")],
        later=[claim("data", "disk")],
    ),
    goes_to(
        "a",
        "a volume that every node can use does not matter",
        [A, B],
        volumes=using("data"),
        there=[*FULLER, volume("disk"), claim("data", "disk")],
        also=[as_chosen()],
    ),
    Case(
        "pods of a Job that share a volume go to its node",
        [A, B],
        [job("train", 4, volumes=using("data"))],
        [on("b")],
        there=[taken("a", 4), volume("disk", "@b"), claim("data", "disk")],
    ),
]
