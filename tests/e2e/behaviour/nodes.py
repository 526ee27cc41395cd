"""Nodes that the scheduler, or whoever runs the cluster, would rather not have used."""

from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import deployment, job, pod, preferred
from tests.e2e.behaviour.case import HOST, Case, Change, counts, on, recorded, runs, waits
from tests.e2e.behaviour.made import EVERYTHING, goes_to, goes_to_b, taken

SOFT = "team=other:PreferNoSchedule"
SOFT_TOO = "window=tonight:PreferNoSchedule"
A, B, C = node("a"), node("b"), node("c")
FULLER = [taken("a", 7)]
"""Packing prefers `a` for one pod."""
HALF = [taken("a", 4)]
PRESSURE = {
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "True"}]}
}
CASES = [
    goes_to_b("a node with a soft taint comes after one without, though it is fuller", [node("a", taints=[SOFT]), B]),
    goes_to(
        "b c",
        "a node with two soft taints comes last among several",
        [node("a", taints=[SOFT, SOFT_TOO]), B, C],
        there=FULLER,
    ),
    goes_to_b("one soft taint is better than two", [node("a", taints=[SOFT, SOFT_TOO]), node("b", taints=[SOFT])]),
    Case(
        "replicas keep off a node with a soft taint",
        [node("a", taints=[SOFT]), B, C],
        [deployment("chat", 2)],
        [counts(b=1, c=1)],
    ),
    Case(
        "a Job keeps off a node with a soft taint",
        [node("a", taints=[SOFT]), B],
        [job("train", 4)],
        [counts(b=4)],
        there=HALF,
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
    Case(
        "where all nodes have a soft taint pods run",
        [node("a", taints=[SOFT]), node("b", taints=[SOFT])],
        [job("train", 10)],
        [runs(count=10)],
    ),
    goes_to_b("a cordoned node takes no pod", [node("a", cordoned=True), B]),
    goes_to_b(
        "a cordoned node comes last for a pod that tolerates everything",
        [node("a", cordoned=True), B],
        tolerations=EVERYTHING,
    ),
    goes_to(
        "a",
        "a cordoned node is taken by a pod that tolerates everything where no other has room",
        [node("a", cordoned=True), B],
        8,
        tolerations=EVERYTHING,
        there=[taken("b", 1)],
    ),
    Case(
        "replicas that tolerate everything keep off a cordoned node",
        [node("a", cordoned=True), B, C],
        [deployment("chat", 2, tolerations=EVERYTHING)],
        [counts(b=1, c=1)],
    ),
    Case(
        "a node under memory pressure comes last for a pod that tolerates everything",
        [A, B],
        [pod("one", tolerations=EVERYTHING)],
        [on("b")],
        first=[Change("Node", "a", PRESSURE, "status")],
        there=[taken("a", 7, tolerations=EVERYTHING)],
    ),
    Case(
        "a node under memory pressure takes no pod",
        [A, B],
        [pod("one", 2)],
        [on("b")],
        first=[Change("Node", "a", PRESSURE, "status")],
    ),
    goes_to_b(
        "a node that the autoscaler is about to delete comes last",
        [node("a", taints=["ToBeDeletedByClusterAutoscaler=1760000000:NoSchedule"]), B],
        tolerations=EVERYTHING,
    ),
    goes_to_b(
        "a node that the autoscaler may delete comes last",
        [node("a", taints=["DeletionCandidateOfClusterAutoscaler=1760000000:PreferNoSchedule"]), B],
    ),
    goes_to_b(
        "a node that Karpenter disrupts comes last",
        [node("a", taints=["karpenter.sh/disrupted:NoSchedule"]), B],
        tolerations=EVERYTHING,
    ),
    goes_to_b(
        "a node that an older Karpenter disrupts comes last",
        [node("a", taints=["karpenter.sh/disruption=disrupting:NoSchedule"]), B],
        tolerations=EVERYTHING,
    ),
    goes_to(
        "a",
        "a node that Karpenter disrupts is taken where no other has room",
        [node("a", taints=["karpenter.sh/disrupted:NoSchedule"]), B],
        8,
        tolerations=EVERYTHING,
        there=[taken("b", 2)],
    ),
    goes_to_b("a taint that is not tolerated keeps pods away", [node("a", taints=["team=other:NoSchedule"]), B]),
    goes_to("b", "a taint that evicts keeps pods away", [node("a", taints=["team=other:NoExecute"]), B]),
    Case(
        "the taint of GPU nodes is tolerated",
        [node("a", taints=[GPU_TAINT])],
        [pod("one")],
        [on("a")],
        without=[waits("one")],
    ),
    goes_to_b(
        "a GPU node with a taint comes before one with a soft taint besides",
        [node("a", taints=[GPU_TAINT, SOFT]), node("b", taints=[GPU_TAINT])],
    ),
    goes_to("b", "a node that is not ready takes no pod", [node("a", ready=False), B]),
    goes_to_b(
        "a node whose driver upgrade failed is not chosen",
        [node("a", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}), B],
    ),
    goes_to(
        "a",
        "a node whose driver upgrade failed is taken where there is no other",
        [node("a", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"})],
        also=[recorded("one", why="no node fits")],
    ),
    Case(
        "a whole node is left whole, and the fuller one filled",
        [A, B],
        [pod("one"), pod("two")],
        [on("a")],
        there=[taken("a", 6)],
    ),
    goes_to_b(
        "the CPU of a node counts",
        [node("a", cpu="16"), B],
        container={"resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "32"}}},
    ),
    goes_to_b("a pod with a name of a node in its selector goes there", nodeSelector={"kubernetes.io/hostname": "@b"}),
    goes_to_b("a preferred node of the pod's own comes first", affinity=preferred(HOST, "In", "@b")),
]
