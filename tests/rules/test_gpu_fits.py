"""Pods that no node could take even if it were empty."""

from dataclasses import replace
from typing import Any

from tests.builders import GPU, TWO_NODES, Case, Obstructed, asking, case, container, pod
from webhook.framework.cluster_view import Obstacle
from webhook.framework.interface import Template
from webhook.kube.claim_requests import Alternative
from webhook.rules.gpu_fits import GpuFits
from webhook.text import bare

RULE = GpuFits()
DENY = GpuFits(when_it_may_change="deny")


def meets(cause: str, about: str = "spec", *, lasting: bool = False) -> dict[str, Any]:
    """The context of a pod with this obstacle."""
    return {"nodes": Obstructed(Obstacle(cause, about, "this", "that", "Do it", lasting))}


def selecting(devices: int | None, *most: int) -> Case:
    """A claim with alternatives, of which a node has so many."""
    first, *others = [Alternative(devices, most=each) for each in most]
    selected = asking(devices, most=first.most, others=tuple(others))
    return case(pod(container(gpu=None)), claimed=(selected,))


def unmet(expression: str, *values: tuple[str, tuple[str, ...]]) -> Case:
    """A claim with an expression that no device meets. `values`: what devices have of what it reads."""
    alternative = Alternative(1, most=0, unmet=expression)
    known = replace(TWO_NODES, values=values)
    return case(pod(container(gpu=None)), claimed=(asking()._replace(alternatives=(alternative,)),), cluster=known)


B300 = 'device.attributes["gpu.nvidia.com"].productName == "B300"'
_UNMET = 'saw request "gpu" of template "train", which selects by the expression'
_WAIT = "Or wait if such a node is added."
_CORRECT = "Correct the expressions of its selectors, or wait if such a node is added."


LARGE, LABEL = meets("gpus", GPU, lasting=True), meets("label", "spec.nodeSelector[a]")
DRA = "deviceclass.resource.kubernetes.io/gpu"
ALLOWED: dict[str, Case] = {
    "a pod that fits some node": case(pod(), nodes=Obstructed()),
    "any pod, while nobody can tell": case(pod()),
    "a claim, whose needs are not known": case(pod(resourceClaims=[{"name": "gpu"}]), **LARGE),
    "a claim that a node can take": selecting(8, 8),
    "a claim whose second alternative a node can take": selecting(8, 0, 8),
    "a claim for all devices of a node": selecting(None, 8),
    "a claim, while no driver tells devices": case(pod(container(gpu=None)), claimed=(asking(99),)),
    "a pod without a GPU": case(pod(container(gpu=None)), **LARGE),
    "a resource that is served by DRA": case(pod(), **meets("resource", DRA)),
    "a resource that exists although no node names it": case(
        pod(), rule=GpuFits(extra=("example.com/*",)), **meets("resource", "example.com/nic")
    ),
}

_LIMITS = "spec.containers[0].resources.limits[nvidia.com/gpu]"
_WORDS = "wanted that. Do it."
_LATER = "wanted that. Wait if the autoscaler adds such a node, or do it."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "more GPUs than any node ever had": (
        case(pod(container(gpu=16)), **LARGE),
        [f'{_LIMITS}: saw this in container "main", {_WORDS}'],
    ),
    "the same of a controller's pod": (
        case(pod(container(gpu=16), owned_by="Job"), **LARGE),
        [f'{_LIMITS}: saw this in container "main", {_WORDS}'],
    ),
    "containers that are too large together": (
        case(pod(container("a", gpu=4), container("b", gpu=8)), **LARGE),
        [f"spec: saw this in the whole pod, {_WORDS}"],
    ),
    "more CPU than any node with GPUs ever had": (
        case(pod(), **meets("cpu", lasting=True)),
        [f"spec: saw this, {_WORDS}"],
    ),
    "a label that no node has, where the policy says so": (
        case(pod(), rule=DENY, **LABEL),
        [f"spec.nodeSelector[a]: saw this, {_WORDS}"],
    ),
    "the same in a template": (
        case(pod(owned_by="Job"), rule=DENY, template=Template(None), **LABEL),
        [f"spec.nodeSelector[a]: saw this, {_WORDS}"],
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "a claim for devices that no node has": (
        selecting(1, 0, 0),
        [
            'spec.resourceClaims[0]: saw request "gpu" of template "train", which selects devices that no node has, '
            f"wanted devices that a node has. {_CORRECT}"
        ],
    ),
    "an expression that no device meets, with what devices have": (
        unmet(B300, ("productName", ('"H100"', '"L4"')), ("none", ()), ("memory", ("80Gi",))),
        [
            f"spec.resourceClaims[0]: {_UNMET} «{bare(B300)}» devices that no node has, "
            f'wanted devices that a node has. Correct it: devices have productName: "H100", "L4"; memory: 80Gi. {_WAIT}'
        ],
    ),
    "an expression of a tenant is cut and escaped": (
        unmet("true\n" + "x" * 200, *[(f"n{i}", ("1",)) for i in range(9)]),
        [
            f"spec.resourceClaims[0]: {_UNMET} «true\\n{'x' * 75}…» devices that no node has, "
            f"wanted devices that a node has. Correct it: devices have n0: 1; n1: 1; n2: 1. {_WAIT}"
        ],
    ),
    "a claim for more devices than any node has": (
        selecting(9, 0, 8),
        [
            'spec.resourceClaims[0]: saw 9 devices in request "gpu" of template "train", wanted at most 8, as one node has. '
            "Ask for 8 or fewer, or wait if such a node is added."
        ],
    ),
    "more GPUs than any node has, where an autoscaler may bring a larger one": (
        case(pod(container(gpu=16)), cluster=replace(TWO_NODES, elastic=True), **LARGE),
        [f'{_LIMITS}: saw this in container "main", {_LATER}'],
    ),
    "the same, by the policy": (
        case(pod(container(gpu=16)), rule=GpuFits(autoscaler=True), **LARGE),
        [f'{_LIMITS}: saw this in container "main", {_LATER}'],
    ),
    "more GPUs than any node has now": (
        case(pod(container(gpu=16)), **meets("gpus", GPU)),
        [f'{_LIMITS}: saw this in container "main", {_WORDS}'],
    ),
    "a resource that no node names, asked for as a request": (
        case(pod({"name": "main", "resources": {"requests": {GPU: "1"}}}), **meets("resource", GPU)),
        [f'spec.containers[0].resources.requests[nvidia.com/gpu]: saw this in container "main", {_WORDS}'],
    ),
    "a label that no node has yet, where an autoscaler may bring one": (
        case(pod(), cluster=replace(TWO_NODES, elastic=True), **LABEL),
        [f"spec.nodeSelector[a]: saw this, {_LATER}"],
    ),
    "a label that no node has": (case(pod(), **LABEL), [f"spec.nodeSelector[a]: saw this, {_WORDS}"]),
    "a label that no node has, in a controller's pod, whatever the policy says": (
        case(pod(owned_by="ReplicaSet"), rule=DENY, **LABEL),
        [f"spec.nodeSelector[a]: saw this, {_WORDS}"],
    ),
}
