"""Nodes that the scheduler, or whoever runs the cluster, would rather not have used."""

from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import deployment, pod, preferred
from tests.e2e.behaviour.case import HOST, Case, Change, counts, on, recorded, waits
from tests.e2e.behaviour.made import EVERYTHING, goes_to, goes_to_b, taken

SOFT = "team=other:PreferNoSchedule"
A, B, C = node("a"), node("b"), node("c")
FULLER = [taken("a", 7)]
"""Packing prefers `a` for one pod."""
PRESSURE = {
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "True"}]}
}
CASES = [
    goes_to_b("a node with a soft taint comes after one without, though it is fuller", [node("a", taints=[SOFT]), B]),
    Case(
        "replicas keep off a node with a soft taint",
        [node("a", taints=[SOFT]), B, C],
        [deployment("chat", 2)],
        [counts(b=1, c=1)],
    ),
    goes_to(
        "a",
        "a node with a soft taint is taken where no other has room",
        [node("a", taints=[SOFT]), B],
        8,
        there=[taken("b", 1)],
    ),
    goes_to(
        "a",
        "a soft taint that the pod tolerates does not matter",
        [node("a", taints=[SOFT]), B],
        tolerations=[{"key": "team", "operator": "Exists"}],
        there=FULLER,
    ),
    goes_to_b(
        "a cordoned node comes last for a pod that tolerates everything",
        [node("a", cordoned=True), B],
        tolerations=EVERYTHING,
    ),
    Case(
        "a node under memory pressure comes last for a pod that tolerates everything",
        [A, B],
        [pod("one", tolerations=EVERYTHING)],
        [on("b")],
        first=[Change("Node", "a", PRESSURE, "status")],
        there=[taken("a", 7, tolerations=EVERYTHING)],
    ),
    goes_to_b(
        "a node that Karpenter disrupts comes last",
        [node("a", taints=["karpenter.sh/disrupted:NoSchedule"]), B],
        tolerations=EVERYTHING,
    ),
    Case(
        "the taint of GPU nodes is tolerated",
        [node("a", taints=[GPU_TAINT])],
        [pod("one")],
        [on("a")],
        without=[waits("one")],
    ),
    goes_to(
        "a",
        "a node whose driver upgrade failed is taken where there is no other",
        [node("a", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"})],
        also=[recorded("one", why="no node fits")],
    ),
    goes_to_b(
        "the CPU of a node counts",
        [node("a", cpu="16"), B],
        container={"resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "32"}}},
    ),
    goes_to_b("a preferred node of the pod's own comes first", affinity=preferred(HOST, "In", "@b")),
]
