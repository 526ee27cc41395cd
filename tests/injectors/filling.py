"""Pods and nodes for the tests of the injector cpuPerGpu."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tests.builders import GPU, Case, case
from tests.controlplane.nodes import node
from tests.state import objects
from webhook.admission.earlier import Choice
from webhook.framework.resources_per_gpu import CLASSES
from webhook.injectors.cpu_per_gpu import CpuPerGpuRequests
from webhook.kube.pod import Pod
from webhook.placement.placer import Placer
from webhook.placement.settings import PlacementSettings
from webhook.state.view import StateView

OWN = r"/spec/(containers|initContainers)/\d+/resources/requests(/(cpu|memory))?"
FILL = CpuPerGpuRequests(classes=CLASSES)
NODE = node("big", 8, cpu="128", memory="1000Gi")
"""80 % of it are 12.8 CPUs and 100 GiB for each GPU."""
SMALL = node("small", 1, cpu="3920m", memory="15Gi")


def asking(gpu: Any = 1, name: str = "main", **requests: str) -> dict[str, Any]:
    """A container with this many GPUs, as the API server leaves it, and only these requests."""
    return {"name": name, "resources": {"limits": {GPU: str(gpu)}, "requests": {GPU: str(gpu), **requests}}}


class Known(NamedTuple):
    cluster: StateView
    placer: Placer


def view(*nodes: Mapping[str, Any], taken: Iterable[Mapping[str, Any]] = (), fresh: bool = True) -> Known:
    of = objects.state(map(dict, nodes or (NODE,)), map(dict, taken), max_age=60)
    return Known(of.view(0 if fresh else 1000), Placer(of))


def on(of: Known, made: Pod, *, workload: str = "training", strategy: str = "pack") -> Case:
    """A pod with a context of that cluster, in which nodes can be ranked for it."""
    places = Choice(of.placer, of.cluster, PlacementSettings(), strategy, workload)
    found = case(made, workload=workload, nodes=places)
    return found._replace(context=found.context._replace(cluster=of.cluster))


def requests(made: Pod, kind: str = "containers", position: int = 0) -> dict[str, Any]:
    """The requests of a container without those for GPUs."""
    asked = made["spec"][kind][position]["resources"]["requests"]
    return {name: asked[name] for name in asked if name != GPU}


LIMITED = {"name": "main", "resources": {"limits": {GPU: "1", "cpu": "1", "memory": "1Gi"}}}
SLICE = {"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
BOTH = (asking(name="a"), {"name": "b", "resources": {"limits": {"amd.com/gpu": "1"}}})
BUSY = objects.stored("busy", 0, on="big", limits={"cpu": "124", "memory": "1Gi"})
