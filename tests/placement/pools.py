"""Pools of nodes that differ by labels, and pods that prefer some of them."""

from typing import Any

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.placement.placed import names
from tests.state.objects import Object, placer, state
from webhook.framework.cluster_view import Expression, Placement, Preferred
from webhook.kube.asked import AskedPod
from webhook.placement.settings import PlacementSettings
from webhook.state.state import ClusterState

MODEL = "nvidia.com/gpu.product"
H100, A100, A100_SHARED, L4 = (
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A100-SXM4-80GB-SHARED",
    "NVIDIA-L4",
)
POOLS = [
    node("a1", labels={MODEL: A100, "pool": "spot", "memory": "81920"}),
    node("a2", labels={MODEL: A100, "pool": "on-demand", "memory": "81920"}),
    node("h1", labels={MODEL: H100, "pool": "spot", "memory": "81559"}),
    node("l1", labels={MODEL: L4, "memory": "23034"}),
    node("s1", labels={MODEL: A100_SHARED, "pool": "on-demand", "memory": "81920"}),
    node("z-cpu", 0, labels={"disk": "ssd"}),
]


def policy(*preferences: Object) -> PlacementSettings:
    return PlacementSettings.model_validate({"preferences": preferences})


def prefers(weight: int, *nodes: Object, classes: tuple[str, ...] = ()) -> Object:
    return {"weight": weight, "nodes": nodes, "classes": classes}


def label(key: str, *values: str, operator: str = "In") -> Object:
    return {"key": key, "operator": operator, "values": values}


SPOT, ON_DEMAND, DISK = label("pool", "spot"), label("pool", "on-demand"), label("disk", "ssd")
LARGE = label("memory", "40000", operator="Gt")
TRAINING_ON_SPOT = policy(
    prefers(60, SPOT, classes=("training", "batch")), prefers(60, ON_DEMAND, classes=("inference",))
)


def placed(
    made: Object, by: PlacementSettings = TRAINING_ON_SPOT, of: ClusterState | None = None, **how: Any
) -> Placement:
    of = state(POOLS) if of is None else of
    view = of.view(how.pop("now", 0.0))
    return placer(of).place(
        AskedPod(made, GPUS), view, by, how.pop("strategy", "pack"), how.pop("workload", "training")
    )


def wishing(**annotations: str) -> Object:
    made = pod("p")
    made["metadata"]["annotations"] = {f"gpu-admission.io/{k.replace('_', '-')}": v for k, v in annotations.items()}
    return made


def expressions(*stated: Object) -> Object:
    return {"matchExpressions": [{**e, "values": list(e["values"])} for e in stated]}


PLAIN = names(placed(pod("p"), PlacementSettings()))
A_SPOT = Preferred(6, (Expression("pool", "In", ("spot",)),))
