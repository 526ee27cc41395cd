"""Clusters whose nodes have devices of DRA, and pods that claim them."""

from collections.abc import Iterable
from typing import Any

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.devices import dra
from tests.placement.placed import placed
from tests.state.objects import Object, admitted, state, stored
from webhook.devices.types import PUBLISHED
from webhook.framework.cluster_view import Placement
from webhook.kube.asked import AskedPod
from webhook.state.state import ClusterState

MIG = "mig.nvidia.com"
CAPACITY = f'device.capacity["{dra.DRIVER}"]'
ATTRIBUTES = f'device.attributes["{dra.DRIVER}"]'


def cluster(
    slices: Iterable[Object],
    templates: Iterable[Object] = (),
    claims: Iterable[Object] = (),
    classes: Iterable[Object] = (dra.device_class(), dra.device_class(MIG, "mig")),
    nodes: Iterable[str] = ("a", "b"),
    pods: Iterable[Object] = (),
) -> ClusterState:
    """Nodes without GPUs of a device plugin."""
    of = state([node(name, 0) for name in nodes], pods)
    of.replace("resourceslices", list(slices), 0)
    of.replace("deviceclasses", list(classes), 0)
    of.replace("resourceclaims", list(claims), 0)
    of.replace("resourceclaimtemplates", list(templates), 0)
    return of


def claiming(*templates: str, name: str = "p", **more: Any) -> Object:
    """A pod with a claim from each template."""
    entries = [{"name": f"c{i}", "resourceClaimTemplateName": each} for i, each in enumerate(templates)]
    return stored(name, 0, resourceClaims=entries, **more)


def sharing(claim: str, name: str = "p", **more: Any) -> Object:
    return stored(name, 0, resourceClaims=[{"name": "c", "resourceClaimName": claim}], **more)


def reserve(of: ClusterState, made: Object) -> Placement:
    placement = placed(of, admitted(made))
    of.reserve(AskedPod(made, GPUS), placement, 0)
    return placement


TWO = [dra.gpus_of("a", 4), dra.gpus_of("b", 8)]


def free(of: ClusterState, name: str, driver: str = dra.DRIVER) -> int:
    """Thousandths of devices."""
    return int(of.nodes.columns.free[f"{PUBLISHED}{driver}"][of.nodes.row_of[name]])


def partitioned(name: str, gpus: int) -> Object:
    def drawn(index: int, amount: int) -> list[Object]:
        return [{"counterSet": f"gpu-{index}", "counters": {"slices": {"value": str(amount)}}}]

    devices = []
    for index in range(gpus):
        devices.append(dra.gpu(index, on=name, consumesCounters=drawn(index, 8)))
        for part in range(4):
            mig = {"name": f"mig-{index}-{part}", "attributes": {"type": {"string": "mig"}}}
            devices.append(mig | {"consumesCounters": drawn(index, 2)})
    sets = [{"name": f"gpu-{index}", "counters": {"slices": {"value": "8"}}} for index in range(gpus)]
    return dra.device_slice(name, devices, sharedCounters=sets)
