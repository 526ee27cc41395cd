"""Pods that no node could take even if it were empty."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import GPU, TWO_NODES, Case, Obstructed, asking, case, container
from tests.controlplane.objects import pod
from tests.devices.dra import DRIVER, gpu
from webhook.framework.cluster_view import Unschedulable
from webhook.framework.interface import Template
from webhook.kube.claim_requests import Alternative
from webhook.rules.gpu_fits import GpuFits
from webhook.text import bare

RULE = GpuFits()
DENY = GpuFits(when_it_may_change="deny")
ELASTIC = replace(TWO_NODES, elastic=True)


def meets(cause: str, about: str = "spec", *, lasting: bool = False, of_new_nodes: bool = False) -> dict[str, Any]:
    """The context of a pod with this reason."""
    reason = Unschedulable(cause, about, "this", "that", "Do it", lasting, of_new_nodes=of_new_nodes)
    return {"nodes": Obstructed(reason)}


def claiming(*alternatives: Alternative, **known: Any) -> Case:
    """A claim with these alternatives."""
    request = asking()._replace(alternatives=alternatives)
    return case(pod(gpus=0), claimed=(request,), cluster=replace(TWO_NODES, **known))


def selecting(devices: int | None, *most: int) -> Case:
    """A claim with alternatives, of which a node has so many."""
    return claiming(Alternative(devices, most=most[0]), *[Alternative(devices, most=each) for each in most[1:]])


def unmet(expression: str, *devices: dict[str, Any]) -> Case:
    """A claim with an expression that no device meets."""
    return claiming(Alternative(1, most=0, unmet=expression), devices=devices)


MISSING = meets("resource", GPU)
OTHERS = [(meets("resource", name), name) for name in ("nvidia.com/mig-9g.1gb", "rdma/hca")]
OF = f'device.attributes["{DRIVER}"]'
B300 = f'{OF}.productName == "B300" && {OF}.none == 1 && device.capacity["{DRIVER}"].memory == quantity("9")'
NINE = " && ".join([f"{OF}.n{number} == 1" for number in range(9)])
ODD = gpu(0, attributes={f"n{number}": {"int": 1} for number in range(9)})
LARGE, LABEL = meets("gpus", GPU, lasting=True), meets("label", "spec.nodeSelector[a]")
ALLOWED = [
    pytest.param(case(pod(), nodes=Obstructed()), id="a pod that fits some node"),
    pytest.param(case(pod()), id="any pod, while nobody can tell"),
    pytest.param(case(pod(resourceClaims=[{"name": "gpu"}]), **LARGE), id="a claim, whose needs are not known"),
    pytest.param(selecting(8, 8), id="a claim that a node can take"),
    pytest.param(selecting(8, 0, 8), id="a claim whose second alternative a node can take"),
    pytest.param(selecting(None, 8), id="a claim for all devices of a node"),
    pytest.param(claiming(Alternative(99)), id="a claim, while no driver tells devices"),
    pytest.param(case(pod(gpus=0), **LARGE), id="a pod without a GPU"),
    pytest.param(case(pod(), cluster=ELASTIC, **MISSING), id="GPUs of a pool that is empty now"),
    pytest.param(
        case(pod(gpus=16), cluster=ELASTIC, **meets("gpus", GPU, lasting=True, of_new_nodes=True)),
        id="a pod for machines of which there is none now",
    ),
    pytest.param(
        case(pod(), rule=GpuFits(autoscaler=True), **MISSING),
        id="GPUs of a pool that is empty now, where the policy says that nodes are added",
    ),
    pytest.param(
        case(pod(), **meets("resource", "deviceclass.resource.kubernetes.io/gpu")),
        id="a resource that is served by DRA",
    ),
    pytest.param(
        case(pod(), rule=GpuFits(extra=("example.com/*",)), **meets("resource", "example.com/nic")),
        id="a resource that exists although no node names it",
    ),
]


def of_gpus(end: str = "Do it.", part: str = "limits") -> list[str]:
    return [f'spec.containers[0].resources.{part}[{GPU}]: saw this in container "main", wanted that. {end}']


def of_label(end: str = "Do it.") -> list[str]:
    return [f"spec.nodeSelector[a]: saw this, wanted that. {end}"]


def of_claim(seen: str, end: str) -> list[str]:
    return [f"spec.resourceClaims[0]: saw {seen}, wanted {end} wait if such a node is added."]


_LATER = "Wait if the autoscaler adds such a node; otherwise do it."
REFUSED = [
    pytest.param(case(pod(gpus=16), **LARGE), of_gpus(), id="more GPUs than any node ever had"),
    pytest.param(case(pod(gpus=16, owned_by="Job"), **LARGE), of_gpus(), id="the same of a controller's pod"),
    pytest.param(
        case(pod(containers=[container("a", gpu=4), container("b", gpu=8)]), **LARGE),
        ["spec: saw this in the whole pod, wanted that. Do it."],
        id="containers that are too large together",
    ),
    pytest.param(
        case(pod(), **meets("cpu", lasting=True)),
        ["spec: saw this, wanted that. Do it."],
        id="more CPU than any node with GPUs ever had",
    ),
    pytest.param(case(pod(), rule=DENY, **LABEL), of_label(), id="a label that no node has, where the policy says so"),
    pytest.param(
        case(pod(owned_by="Job"), rule=DENY, template=Template(None), **LABEL), of_label(), id="the same in a template"
    ),
]
_WORDS = 'request "gpu" of template "train"'
_NO_NODE = "devices that no node has"
WARNED = [
    pytest.param(
        selecting(1, 0, 0),
        of_claim(
            f"{_WORDS}, which selects {_NO_NODE}",
            "devices that a node has. Correct the expressions of its selectors, or",
        ),
        id="a claim for devices that no node has",
    ),
    pytest.param(
        unmet(B300, gpu(0), gpu(1, "L4")),
        of_claim(
            f"{_WORDS}, which selects by the expression «{bare(B300)}» {_NO_NODE}",
            'devices that a node has. Correct it: devices have productName: "H100", "L4"; memory: 80Gi. Or',
        ),
        id="an expression that no device meets, with what devices have",
    ),
    pytest.param(
        unmet(f"\n{NINE}", ODD),
        of_claim(
            f"{_WORDS}, which selects by the expression «{bare(chr(10) + NINE)}» {_NO_NODE}",
            "devices that a node has. Correct it: devices have n0: 1; n1: 1; n2: 1. Or",
        ),
        id="an expression of a tenant is cut and escaped",
    ),
    pytest.param(
        selecting(9, 0, 8),
        of_claim(f"9 devices in {_WORDS}", "at most 8, as one node has. Ask for 8 or fewer, or"),
        id="a claim for more devices than any node has",
    ),
    pytest.param(
        case(
            pod(gpus=0),
            claimed=(asking(9, most=8), asking(4, most=8)),
            cluster=TWO_NODES,
        ),
        of_claim(f"9 devices in {_WORDS}", "at most 8, as one node has. Ask for fewer, or"),
        id="a claim for more, and another request that needs some of them",
    ),
    pytest.param(
        case(pod(gpus=16), cluster=ELASTIC, **LARGE),
        of_gpus(_LATER),
        id="more GPUs than any node has, where an autoscaler may bring a larger one",
    ),
    pytest.param(
        case(pod(gpus=16), rule=GpuFits(autoscaler=True), **LARGE), of_gpus(_LATER), id="the same, by the policy"
    ),
    pytest.param(case(pod(gpus=16), **meets("gpus", GPU)), of_gpus(), id="more GPUs than any node has now"),
    pytest.param(
        case(pod(containers=[{"name": "main", "resources": {"requests": {GPU: "1"}}}]), **meets("resource", GPU)),
        of_gpus(part="requests"),
        id="a resource that no node names, asked for as a request",
    ),
    pytest.param(
        case(pod(), cluster=ELASTIC, **LABEL),
        of_label(_LATER),
        id="a label that no node has yet, where an autoscaler may bring one",
    ),
    pytest.param(case(pod(), **LABEL), of_label(), id="a label that no node has"),
    pytest.param(
        case(pod(), **meets("label", "spec.nodeSelector[a]", of_new_nodes=True)),
        of_label(),
        id="machines of which there is none, and nobody adds nodes",
    ),
    pytest.param(case(pod(), **MISSING), of_gpus(), id="GPUs that no node has, and nobody adds nodes"),
    *[
        pytest.param(
            case(pod(containers=[container(gpu=None, limits={name: "1"}), container("b")]), cluster=ELASTIC, **context),
            [f'spec.containers[0].resources.limits[{name}]: saw this in container "main", wanted that. {_LATER}'],
            id=f"{name}, which the policy does not name in full, where nodes are added",
        )
        for context, name in OTHERS
    ],
    pytest.param(
        case(pod(owned_by="ReplicaSet"), rule=DENY, **LABEL),
        of_label(),
        id="a label that no node has, in a controller's pod, whatever the policy says",
    ),
]
