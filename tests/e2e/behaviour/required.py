"""Under `nodeAffinity: {mode: required}`: a pod is pinned to its node only where nothing but us has a say in it."""

from dataclasses import replace

from tests.controlplane.nodes import node
from tests.controlplane.objects import job, pod, required
from tests.e2e.behaviour.case import HOST, Case, Change, as_chosen, on, recorded, runs
from tests.e2e.behaviour.made import EVERYTHING, affinity, claim, goes_to, goes_to_b, taken, using, volume

A, B = node("a"), node("b")
FULLER = [taken("a", 7)]
PINNED = ("nodeAffinity", "required")
NOT_PINNED = ("nodeAffinity", "notPinned")


CASES = [
    replace(case, profile="pinned")
    for case in [
        goes_to(
            "a",
            "a pod is pinned to the node that it is ranked first on",
            [A, B],
            there=FULLER,
            also=[as_chosen(), recorded("one", unit=PINNED)],
        ),
        Case("sixteen pods are pinned and fill two nodes", [A, B], [job("train", 16)], [runs(count=16), as_chosen()]),
        goes_to_b(
            "a pod with affinity of its own is pinned within it",
            affinity=required(HOST, "In", "@b"),
            also=[recorded("one", unit=PINNED)],
        ),
        goes_to_b(
            "a pod with required affinity to pods is not pinned",
            affinity=affinity("cache"),
            there=[taken("b", 1, "cache")],
            also=[recorded("one", why="pod affinity")],
        ),
        goes_to_b(
            "a pod with a volume is not pinned",
            volumes=using("data"),
            there=[volume("disk", "@b"), claim("data", "disk")],
            also=[recorded("one", unit=NOT_PINNED)],
        ),
        Case(
            "a pod that finds no room waits unpinned, and runs where room comes",
            [A, B],
            [pod("one")],
            [on("b")],
            there=[taken("a", 8, "first"), taken("b", 8, "second")],
            later=[Change("Pod", "second")],
        ),
        goes_to_b(
            "a pod that tolerates everything is not pinned to a cordoned node while there is another",
            [node("a", cordoned=True), B],
            tolerations=EVERYTHING,
        ),
    ]
]
