"""Pods that name their node."""

import pytest

from tests.builders import case
from tests.controlplane.objects import pod
from webhook.rules.node_name import NodeName

RULE = NodeName()

ALLOWED = [
    pytest.param(case(pod()), id="none"),
    pytest.param(
        case(pod(nodeName="gpu-a1"), groups=("system:nodes", "system:authenticated")),
        id="a mirror pod, which its kubelet registers",
    ),
    pytest.param(case(pod(nodeName="gpu-a1"), operation="UPDATE"), id="a running pod that gets a debug container"),
    pytest.param(
        case(pod(nodeName="gpu-a1"), groups=("platform",), rule=NodeName(groups=("platform",))),
        id="a group that the policy trusts",
    ),
]

_END = (
    "wanted no node name: it bypasses the scheduler and the taints of the node. "
    "Remove it; to require a node use nodeSelector, to prefer one node affinity, with kubernetes.io/hostname."
)
REFUSED = [
    pytest.param(
        case(pod(nodeName="gpu-a1"), groups=("system:authenticated",)),
        [f'spec.nodeName: saw "gpu-a1", {_END}'],
        id="a tenant, with a GPU",
    ),
    pytest.param(
        case(pod(gpus=0, nodeName="gpu-a1")), [f'spec.nodeName: saw "gpu-a1", {_END}'], id="a tenant, without a GPU"
    ),
    pytest.param(
        case(pod(nodeName="gpu-a1", annotations={"kubernetes.io/config.mirror": "x"})),
        [f'spec.nodeName: saw "gpu-a1", {_END}'],
        id="a pod of a tenant with the annotation of mirror pods",
    ),
]
