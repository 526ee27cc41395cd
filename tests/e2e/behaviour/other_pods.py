"""Pods whose nodes depend on other pods: affinity to them, spread over domains, ports of the host."""

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, pod
from tests.e2e.behaviour.case import ZONE, Case, apart, as_chosen, counts, runs, together, waits
from tests.e2e.behaviour.made import affinity, goes_to, goes_to_b, port, spread, taken

A, B = node("a"), node("b")
ZONES = [node("a"), node("b", zone="zone-b")]
HALF = [taken("a", 4)]
CASES = [
    # --- required affinity
    goes_to_b(
        "a pod goes to the pod that it must be with, though another node is fuller",
        affinity=affinity("cache"),
        there=[taken("b", 1, "cache")],
    ),
    Case(
        "a pod waits where the host of the pod that it must be with is full",
        [A, B],
        [pod("one", 4, affinity=affinity("cache"))],
        [waits("one")],
        there=[taken("b", 6, "cache")],
        without=[waits("one")],
    ),
    Case(
        "a pod waits for the pod that it must be with, and both run once that comes",
        [A, B],
        [pod("one", affinity=affinity("cache"))],
        [runs("one", "cache"), together()],
        later=[pod("cache", 1)],
        there=HALF,
    ),
    # --- required anti-affinity
    Case(
        "two pods that must not share a host do not",
        [A, B],
        [deployment("pair", 2, affinity=affinity("pair", anti=True))],
        [apart()],
        there=HALF,
    ),
    goes_to(
        "b",
        "a pod keeps off the host of a pod that does not want it",
        [A, B],
        there=[taken("a", 7, "lonely", affinity=affinity("one", anti=True))],
    ),
    Case(
        "one pod more than hosts waits, as without us",
        [A, B],
        [deployment("three", 3, affinity=affinity("three", anti=True))],
        [waits(count=1)],
        without=[waits(count=1)],
    ),
    # --- preferences about pods
    goes_to_b(
        "preferred affinity of little weight is not outweighed",
        affinity=affinity("cache", weight=1),
        there=[taken("b", 1, "cache")],
    ),
    goes_to_b(
        "preferred affinity to a zone is not outweighed",
        ZONES,
        affinity=affinity("cache", ZONE, weight=100),
        there=[taken("b", 1, "cache")],
    ),
    Case(
        "preferred anti-affinity is not outweighed",
        [A, B],
        [job("two", 2, affinity=affinity("two", anti=True, weight=100))],
        [apart()],
        there=HALF,
    ),
    Case(
        "pods that prefer to share a host do, where they fit",
        [A, B],
        [deployment("chat", 2, affinity=affinity("chat", weight=100))],
        [together()],
        without=[together()],
    ),
    # --- spread
    Case(
        "a hard spread over hosts is kept",
        [A, B],
        [job("train", 4, topologySpreadConstraints=spread("train"))],
        [counts(a=2, b=2)],
        there=HALF,
    ),
    Case(
        "a hard spread of two pods a host and a full host wait as without us",
        [A, B],
        [job("train", 4, topologySpreadConstraints=spread("train"))],
        [waits(count=1)],
        there=[taken("a", 7)],
        without=[waits(count=1)],
    ),
    Case(
        "a soft spread over hosts is not outweighed",
        [A, B],
        [job("train", 4, topologySpreadConstraints=spread("train", hard=False))],
        [counts(a=2, b=2)],
    ),
    Case(
        "a spread with a large skew lets pods go where they are ranked",
        [A, B],
        [job("train", 3, topologySpreadConstraints=spread("train", skew=8))],
        [runs(count=3), as_chosen()],
        there=HALF,
    ),
    # --- ports of the host
    Case(
        "two pods with one port of the host are apart",
        [A, B],
        [job("train", 2, container=port(7070))],
        [apart()],
        there=HALF,
    ),
]
