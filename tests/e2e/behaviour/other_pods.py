"""Pods whose nodes depend on other pods: affinity to them, spread over domains, ports of the host."""

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, pod
from tests.e2e.behaviour.case import ZONE, Case, apart, as_chosen, counts, runs, together, waits
from tests.e2e.behaviour.made import affinity, goes_to, goes_to_b, port, spread, taken

A, B, C = node("a"), node("b"), node("c")
ZONES = [node("a"), node("b", zone="zone-b")]
FULLER = [taken("a", 7)]
"""Packing prefers `a` for one pod."""
HALF = [taken("a", 4)]
CASES = [
    # --- required affinity
    goes_to_b(
        "a pod goes to the pod that it must be with, though another node is fuller",
        affinity=affinity("cache"),
        there=[taken("b", 1, "cache")],
    ),
    goes_to_b(
        "a pod goes to the zone of the pod that it must be with",
        ZONES,
        affinity=affinity("cache", ZONE),
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
    Case(
        "pods of a Job that must not share a host do not",
        [A, B, C],
        [job("train", 3, affinity=affinity("train", anti=True))],
        [apart()],
        there=HALF,
    ),
    Case(
        "pods that must not share a zone do not",
        ZONES,
        [job("train", 2, affinity=affinity("train", ZONE, anti=True))],
        [apart(ZONE)],
        there=HALF,
    ),
    goes_to(
        "b",
        "a pod keeps off the host of a pod that it must not be with",
        [A, B],
        affinity=affinity("noisy", anti=True),
        there=[taken("a", 7, "noisy")],
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
        "preferred affinity to a pod is not outweighed",
        affinity=affinity("cache", weight=100),
        there=[taken("b", 1, "cache")],
    ),
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
    goes_to(
        "b",
        "preferred anti-affinity to another's pod is not outweighed",
        [A, B],
        affinity=affinity("noisy", anti=True, weight=50),
        there=[taken("a", 7, "noisy")],
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
    goes_to(
        "b",
        "a hard spread counts pods that are there",
        [A, B],
        labels={"app": "chat"},
        topologySpreadConstraints=spread("chat"),
        there=[taken("a", 6), taken("a", 1, "chat")],
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
        "a spread over three domains at least is kept",
        [A, B, C],
        [job("train", 3, topologySpreadConstraints=spread("train", minDomains=3))],
        [apart()],
        there=HALF,
    ),
    Case(
        "a soft spread over hosts is not outweighed",
        [A, B],
        [job("train", 4, topologySpreadConstraints=spread("train", hard=False))],
        [counts(a=2, b=2)],
    ),
    Case(
        "a soft spread over zones is not outweighed",
        ZONES,
        [job("train", 4, topologySpreadConstraints=spread("train", ZONE, hard=False))],
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
    goes_to(
        "b",
        "a pod keeps off a host whose port is taken",
        [A, B],
        container=port(7070),
        there=[taken("a", 7, container=port(7070))],
    ),
    goes_to(
        "a",
        "another port of the host does not matter",
        [A, B],
        container=port(7071),
        there=[taken("a", 7, container=port(7070))],
    ),
    Case(
        "one pod more than hosts with its port waits, as without us",
        [A, B],
        [job("train", 3, container=port(7070))],
        [waits(count=1)],
        without=[waits(count=1)],
    ),
]
