"""What few manifests say: rules about pods that must be near and apart at once, and requests besides GPUs and CPU."""

from typing import Any

from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import REQUIRED, job, made, pod
from tests.e2e.behaviour.case import HOST, ZONE, Case, Change, Json, apart, as_chosen, counts, on, runs, together, waits
from tests.e2e.behaviour.made import affinity, claim, goes_to_b, spread, taken, using, volume
from tests.e2e.behaviour.workloads import in_zones, indexed

GPU, RDMA = "nvidia.com/gpu", "rdma/hca_shared_devices_a"
A, B = node("a"), node("b")
FULLER, HALF = [taken("a", 7)], [taken("a", 4)]


def limits(**amounts: str) -> Json:
    return {"resources": {"limits": amounts}}


def rule(kind: str, key: str, selector: Json, **more: Any) -> Json:
    """A required rule about pods."""
    return {kind: {REQUIRED: [{"topologyKey": key, "labelSelector": selector} | more]}}


def once(found: Json) -> Json:
    """A volume or a claim for one pod alone."""
    found["spec"]["accessModes"] = ["ReadWriteOncePod"]
    return found


KATA = made("RuntimeClass", "@kata", handler="kata", overhead={"podFixed": {"cpu": "16"}})
DEFAULTS = {"type": "Container", "default": {GPU: "1"}, "defaultRequest": {GPU: "1"}}
GPU_BY_DEFAULT = made("LimitRange", "gpus", spec={"limits": [DEFAULTS]})
GUARDED = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
GUARD = made("PodDisruptionBudget", "guard", spec=GUARDED)
TENANTS = {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]}
CASES = [
    # --- near and apart at once
    Case(
        "a Job whose pods have a host each goes to the zone with so many hosts",
        in_zones(a=1, b=3),
        [job("train", 3, 2, affinity=affinity("train", anti=True))],
        [together(ZONE), apart()],
    ),
    Case(
        "pods that keep off other tenants do not keep off each other",
        [A, B],
        [
            job(
                "train",
                4,
                labels={"tenant": "x"},
                affinity=rule("podAntiAffinity", HOST, TENANTS, mismatchLabelKeys=["tenant"]),
            )
        ],
        [on("a"), as_chosen()],
        there=HALF,
    ),
    Case(
        "a hard spread that counts no nodes with taints, beside a full one with the taint of GPUs",
        [A, node("b", taints=[GPU_TAINT])],
        [job("train", 3, topologySpreadConstraints=spread("train", nodeTaintsPolicy="Honor"))],
        [counts(a=3)],
        there=[taken("b", 8)],
    ),
    # --- requests
    goes_to_b(
        "a network card beside the GPU",
        [A, node("b", resources={RDMA: "8"})],
        container=limits(**{GPU: "1", RDMA: "1"}),
        also=[as_chosen()],
    ),
    goes_to_b(
        "the overhead of a runtime counts",
        [node("a", cpu="24"), B],
        runtimeClassName="@kata",
        container=limits(**{GPU: "1", "cpu": "12"}),
        there=[KATA],
        also=[as_chosen()],
    ),
    goes_to_b(
        "the resources of the whole pod count",
        [node("a", cpu="24"), B],
        resources={"limits": {"cpu": "40"}},
        also=[as_chosen()],
    ),
    Case(
        "GPUs that a LimitRange gives",
        [node("a", taints=[GPU_TAINT]), node("b", taints=[GPU_TAINT])],
        [pod("one", 0)],
        [on("a"), as_chosen()],
        there=[GPU_BY_DEFAULT, *FULLER],
        without=[waits("one")],
    ),
    Case(
        "a volume for one pod alone",
        [A, B],
        [pod(name, volumes=using("data")) for name in ("one", "two")],
        [on("b", "one"), waits("two")],
        there=[once(volume("disk", "@b")), once(claim("data", "disk")), *FULLER],
        without=[waits("two")],
    ),
    # --- what happens later
    Case(
        "a Job that is suspended at first goes to the zone that holds it",
        in_zones(a=1, b=2),
        [indexed("train", 2, 8, suspend=True)],
        [runs(count=2), together(ZONE)],
        later=[Change("Job", "train", {"spec": {"suspend": False}})],
    ),
    Case(
        "a pod that comes once its best node is cordoned",
        [A, B],
        [pod("one")],
        [on("a", "one"), on("b", "two")],
        later=[Change("Node", "a", {"spec": {"unschedulable": True}}), pod("two")],
        there=HALF,
    ),
    Case(
        "a service by label takes the place of a pod that no budget guards",
        [node("a", 2), node("b", 2)],
        [pod("chat", 2, labels={"workload-type": "inference"})],
        [on("b", "chat")],
        there=[
            taken("a", 2, "guarded", priorityClassName="gpu-development"),
            taken("b", 2, "other", priorityClassName="gpu-development"),
            GUARD,
        ],
        without=[waits("chat")],
    ),
]
